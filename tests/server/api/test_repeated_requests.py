"""A request that comes again after its answer was lost: done once, and the second answer says how things are.

The management API takes no idempotency keys; see docs/adding-an-endpoint.md for what holds instead.
"""

from __future__ import annotations

from typing import Any

from catalog.jobs.job import JobKind
from tests.factories import LAKE
from tests.server.api.client import Api, good
from tests.server.lake import PLAIN
from tests.server.service.dropping import append_files, files_below, listed, purge_all

DROPPED = "/api/v1/catalogs/lake/dropped"
COLUMNS = [{"name": "id", "type": "long"}]


def again(api: Api, method: str, path: str, body: Any = None) -> Any:
    """The second answer to one request, which is as good as the first."""
    good(api.http.request(method, path, json=body))
    return good(api.http.request(method, path, json=body))


def refused_again(api: Api, path: str, body: Any) -> tuple[int, str]:
    """The second answer to one request that can be carried out only once."""
    good(api.http.post(path, json=body))
    answer = api.http.post(path, json=body)
    return answer.status_code, answer.json()["error"]["message"]


def dropped_with_files(api: Api) -> tuple[str, str]:
    """A dropped table: its id and where its files are."""
    api.lake.create()
    append_files(api.lake)
    location: str = api.lake.metadata(PLAIN)["location"]
    return str(api.lake.services.drop(LAKE, PLAIN).id), location


def test_an_undrop_is_answered_with_what_came_back(api: Api) -> None:
    entry_id, _ = dropped_with_files(api)
    answer = again(api, "POST", f"{DROPPED}/{entry_id}/undrop", {"to": "db.back"})
    assert answer["restored"] == [{"id": entry_id, "kind": "table", "name": "db.back"}]
    assert [event["operation"] for event in api.history("db.back")].count("undrop") == 1


def test_an_undrop_of_a_namespace_says_that_it_is_not_on_the_list_any_more(api: Api) -> None:
    api.lake.create()
    done = good(api.http.delete("/api/v1/catalogs/lake/namespaces/db", params={"recursive": True}))
    path = f"{DROPPED}/{done['id']}/undrop"
    good(api.http.post(path))
    answer = api.http.post(path)
    assert answer.status_code == 404
    assert "restored, purged or forgotten" in answer.json()["error"]["hint"]
    api.get("db.plain")


def test_a_purge_goes_on_and_once_it_has_ended_is_done(api: Api) -> None:
    entry_id, location = dropped_with_files(api)
    again(api, "DELETE", f"{DROPPED}/{entry_id}")
    purge_all(api.lake)
    assert (files_below(location), listed(api.lake)) == (set(), [])
    assert api.http.delete(f"{DROPPED}/{entry_id}").status_code == 202


def test_a_purge_of_a_namespace_passes_over_what_is_being_purged(api: Api) -> None:
    api.lake.create()
    done = good(api.http.delete("/api/v1/catalogs/lake/namespaces/db", params={"recursive": True}))
    table = next(relation for relation in listed(api.lake) if relation.name == "db.plain")
    for entry_id in (table.id, done["id"]):
        good(api.http.delete(f"{DROPPED}/{entry_id}"))
    purge_all(api.lake)
    assert listed(api.lake) == []


def test_what_was_forgotten_with_its_files_is_not_called_purged(api: Api) -> None:
    entry_id, location = dropped_with_files(api)
    good(api.http.delete(f"{DROPPED}/{entry_id}", params={"keep_files": True}))
    assert api.http.delete(f"{DROPPED}/{entry_id}").status_code == 404
    assert files_below(location)


def test_a_rollback_is_done_already(api: Api) -> None:
    first, _, third = api.filled()
    body = {"snapshot_id": str(first), "expected_head": str(third)}
    again(api, "POST", "/api/v1/catalogs/lake/tables/db.plain/rollback", body)
    assert api.lake.metadata(PLAIN)["current-snapshot-id"] == first
    assert len(api.history(kind="refs")) <= 1


def test_what_is_created_is_there_and_is_not_made_twice(api: Api, tmp_path: Any) -> None:
    refusal = refused_again(api, "/api/v1/catalogs/lake/tables", {"name": "db.t", "columns": COLUMNS})
    assert refusal == (409, "Table already exists: db.t")
    keyed = {"name": "db.k", "columns": COLUMNS, "primary_key": ["id"]}
    assert refused_again(api, "/api/v1/catalogs/lake/tables", keyed) == (409, "Table already exists: db.k")
    refusal = refused_again(api, "/api/v1/catalogs/lake/namespaces", {"name": "sales"})
    assert refusal == (409, "Namespace already exists: sales")
    assert refused_again(api, "/api/v1/groups", {"name": "nightly"}) == (409, "group nightly already exists")
    body = {"name": "other", "warehouse": tmp_path.as_uri()}
    assert refused_again(api, "/api/v1/catalogs", body) == (409, "catalog 'other' already exists")


def test_a_drop_is_answered_as_for_a_table_that_is_not_there(api: Api) -> None:
    api.lake.create()
    path = "/api/v1/catalogs/lake/tables/db.plain"
    good(api.http.delete(path))
    assert api.http.delete(path).status_code == 404
    assert len(listed(api.lake)) == 1


def test_what_sets_a_state_can_be_said_any_number_of_times(api: Api) -> None:
    api.filled(1)
    tables = "/api/v1/catalogs/lake/tables/db.plain"
    assert again(api, "POST", f"{tables}/protect")["protected"]
    assert not again(api, "POST", f"{tables}/unprotect")["protected"]
    assert again(api, "PATCH", f"{tables}/properties", {"set": {"note": "a"}})["properties"]["note"] == "a"
    assert again(api, "PUT", f"{tables}/refs/v1", {"type": "tag"})["name"] == "v1"
    assert again(api, "PUT", "/api/v1/groups/default", {"reserved_slots": 2})["reserved_slots"] == 2
    lake = "/api/v1/catalogs/lake"
    changed = again(api, "PATCH", f"{lake}/properties", {"set": {"firn.drop.retention": "30 d"}, "remove": ["x"]})
    assert changed["properties"] == {"firn.drop.retention": "30 d"}


def test_a_job_is_not_started_twice_and_can_be_canceled_twice(api: Api) -> None:
    api.filled(1)
    status, message = refused_again(api, "/api/v1/catalogs/lake/tables/db.plain/jobs", {"kind": "rewrite"})
    assert (status, message) == (409, "a rewrite job is pending on db.plain")
    with api.lake.services.database.reading() as uow:
        (job,) = uow.jobs.list(limit=10).items
    assert job.kind is JobKind.REWRITE
    assert again(api, "POST", f"/api/v1/jobs/{job.id}/cancel")["status"] == "canceled"


def test_an_import_is_not_started_twice(api: Api, tmp_path: Any) -> None:
    body = {"source": "warehouse", "address": tmp_path.as_uri(), "allow_locations": [tmp_path.as_uri()]}
    status, message = refused_again(api, "/api/v1/catalogs/lake/imports", body)
    assert (status, message) == (409, f"{tmp_path.as_uri()} is being imported already")
