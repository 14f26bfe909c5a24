"""Branches, tags, rollback and comparison by the management API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from catalog.history.refs import RefType, WantedRef
from tests.factories import LAKE
from tests.server.api.client import Api
from tests.server.lake import BASE, CHANGE, PLAIN, set_property, void

DAY_MS = 86_400_000


def refs(api: Api, table: str = "db.plain") -> dict[str, Any]:
    return {ref["name"]: ref for ref in api.get(f"{table}/refs")}


def head(api: Api) -> int:
    snapshot_id: int = api.lake.metadata(PLAIN)["current-snapshot-id"]
    return snapshot_id


# --- branches and tags -----------------------------------------------------------------------------------------------


def test_a_tag_and_a_branch_are_made_listed_and_dropped(api: Api) -> None:
    first, _, third = api.filled()
    api.put("db.plain/refs/v1", {"type": "tag", "snapshot": str(first), "max_ref_age_ms": 7 * DAY_MS})
    api.put("db.plain/refs/audit/2026", {"type": "branch", "min_snapshots_to_keep": 2, "max_snapshot_age_ms": DAY_MS})
    listed = api.get("db.plain/refs")
    assert [ref["name"] for ref in listed] == ["main", "audit/2026", "v1"]
    _, audit, tag = listed
    assert (tag["type"], tag["snapshot_id"], tag["behind"], tag["max_ref_age_ms"]) == ("tag", str(first), 2, 7 * DAY_MS)
    assert tag["totals"] == {"rows": 10, "files": 1, "bytes": 1000}
    assert (audit["snapshot_id"], audit["min_snapshots_to_keep"], audit["ahead"]) == (str(third), 2, 0)
    assert api.lake.metadata(PLAIN)["refs"]["v1"] == {"type": "tag", "snapshot-id": first, "max-ref-age-ms": 7 * DAY_MS}
    assert api.http.delete("/api/v1/catalogs/lake/tables/db.plain/refs/audit%2F2026").status_code == 204
    assert set(refs(api)) == {"main", "v1"}


def test_a_ref_that_points_elsewhere_is_moved_only_when_it_is_said(api: Api) -> None:
    first, second, _ = api.filled()
    api.put("db.plain/refs/v1", {"type": "tag", "snapshot": str(first)})
    status, message, hint = api.refused("PUT", "db.plain/refs/v1", {"type": "tag", "snapshot": str(second)})
    assert (status, message, hint) == (409, f"tag v1 exists at snapshot {first}", "set `replace` to move it")
    api.put("db.plain/refs/v1", {"type": "tag", "snapshot": str(second), "replace": True})
    assert refs(api)["v1"]["snapshot_id"] == str(second)
    status, message, _ = api.refused("PUT", "db.plain/refs/v1", {"type": "branch", "replace": True})
    assert (status, message) == (409, "v1 is a tag")


def test_asking_again_for_a_ref_that_is_so_commits_nothing(api: Api) -> None:
    api.filled()
    for _ in range(2):
        api.put("db.plain/refs/v1", {"type": "tag"})
    assert len(api.history(kind="refs")) == 1


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("refs/v1", {"type": "tag", "snapshot": "12345"}, 404, "no snapshot, branch or tag 12345"),
        ("refs/v1", {"type": "tag", "min_snapshots_to_keep": 3}, 400, "a tag keeps only its own snapshot"),
        ("refs/2026", {"type": "tag"}, 400, "engines take a number for a snapshot's id"),
        ("refs/%20v", {"type": "tag"}, 400, "none blank at an end"),
        ("refs/v1", {"type": "tag", "max_ref_age_ms": 0}, 422, "max_ref_age_ms"),
        (
            "refs/main",
            {"type": "branch", "snapshot": "old", "replace": True},
            409,
            "main is not moved like another branch",
        ),
        ("refs/main", {"type": "tag"}, 409, "main is a branch"),
    ],
)
def test_refs_that_make_no_sense_are_refused(api: Api, path: str, body: Any, status: int, words: str) -> None:
    first, *_ = api.filled()
    api.put("db.plain/refs/old", {"type": "tag", "snapshot": str(first)})
    code, message, _ = api.refused("PUT", f"db.plain/{path}", body)
    assert code == status
    assert words in message


def test_main_can_say_how_long_it_keeps_its_snapshots_and_a_rollback_leaves_that(api: Api) -> None:
    first, *_ = api.filled()
    api.put("db.plain/refs/main", {"type": "branch", "min_snapshots_to_keep": 5})
    api.post("db.plain/rollback", {"snapshot_id": str(first)})
    assert api.lake.metadata(PLAIN)["refs"]["main"] == {
        "type": "branch",
        "snapshot-id": first,
        "min-snapshots-to-keep": 5,
    }


def test_main_is_not_dropped_and_what_is_not_there_is_not_found(api: Api) -> None:
    api.filled()
    assert api.refused("DELETE", "db.plain/refs/main")[:2] == (400, "main cannot be dropped: it is the table")
    assert api.refused("DELETE", "db.plain/refs/v1")[:2] == (404, "the table has no branch or tag v1")


def test_a_branch_is_fast_forwarded_and_never_loses_commits_by_it(api: Api) -> None:
    _, _, third = api.filled()
    api.put("db.plain/refs/audit", {"type": "branch"})
    staged = api.staged(third, branch="audit")
    assert (refs(api)["audit"]["ahead"], refs(api)["audit"]["behind"]) == (1, 0)
    assert api.post("db.plain/refs/main/fast-forward", {"to": "audit"})["snapshot_id"] == str(staged)
    assert head(api) == staged
    assert api.history()[0]["operation"] == "fast-forward"
    other = api.staged(third, branch="late")
    api.lake.append(PLAIN)
    status, message, _ = api.refused("POST", "db.plain/refs/late/fast-forward", {"to": "main"})
    assert (status, message) == (
        409,
        "late cannot be fast-forwarded to main: it has 1 snapshot that main does not stand on",
    )
    assert refs(api)["late"]["snapshot_id"] == str(other)


def test_of_two_that_move_one_ref_at_once_one_is_refused(api: Api) -> None:
    first, second, _ = api.filled()
    api.put("db.plain/refs/v1", {"type": "tag", "snapshot": str(first)})
    moved = WantedRef(name="v1", type=RefType.TAG, at=str(second), replace=True)
    api.lake.database.meanwhile.append(lambda: api.lake.elsewhere.services.refs.set(LAKE, PLAIN, moved))
    status, message, hint = api.refused("PUT", "db.plain/refs/v1", {"type": "tag", "replace": True})
    assert status == 409
    assert "tag v1 has changed" in message
    assert "somebody has committed since" in hint
    assert refs(api)["v1"]["snapshot_id"] == str(second)


def test_a_tag_does_not_conflict_with_an_append(api: Api) -> None:
    _, _, third = api.filled()
    api.lake.database.meanwhile.append(lambda: void(api.lake.elsewhere.append(PLAIN)))
    api.put("db.plain/refs/v1", {"type": "tag", "snapshot": str(third)})
    assert refs(api)["v1"]["behind"] == 1


def test_a_keyed_tables_base_takes_tags_and_no_branches(api: Api) -> None:
    api.lake.create_keyed()
    tagged = api.lake.append(BASE)
    api.put("db.orders/refs/v1", {"type": "tag"})
    assert refs(api, "db.orders")["v1"]["snapshot_id"] == str(tagged)
    status, message, hint = api.refused("PUT", "db.orders/refs/b", {"type": "branch"})
    assert (status, hint) == (409, "tags can be set on the base store")
    assert "no branches but main" in message
    assert api.http.delete("/api/v1/catalogs/lake/tables/db.orders/refs/v1").status_code == 204


# --- rollback --------------------------------------------------------------------------------------------------------


def test_a_dry_run_says_what_would_leave_main_and_changes_nothing(api: Api) -> None:
    first, second, third = api.filled()
    api.put("db.plain/refs/v2", {"type": "tag", "snapshot": str(second)})
    dry_run = api.post("db.plain/rollback", {"snapshot_id": str(first)}, dry_run=True)
    assert (dry_run["done"], dry_run["changes"], dry_run["head"], dry_run["target"]) == (
        False,
        True,
        str(third),
        str(first),
    )
    assert [snapshot["snapshot_id"] for snapshot in dry_run["leaving"]["newest"]] == [str(third), str(second)]
    assert (dry_run["leaving"]["commits"], dry_run["leaving"]["added_rows"], dry_run["leaving"]["added_files"]) == (
        2,
        20,
        2,
    )
    assert (dry_run["now"]["rows"], dry_run["then"]["rows"]) == (30, 10)
    assert dry_run["held"] == {str(second): ["v2"]}
    assert dry_run["description"] == (
        "take from main 2 commits with 20 rows added and 0 removed; "
        "the table then has 10 rows in 1 file, now 30 rows in 1 file"
    )
    assert head(api) == third


def test_a_rollback_moves_main_keeps_the_snapshots_and_can_be_undone(api: Api) -> None:
    first, _, third = api.filled()
    done = api.post("db.plain/rollback", {"snapshot_id": str(first), "expected_head": str(third)})
    assert done["done"]
    assert head(api) == first
    assert len(api.lake.metadata(PLAIN)["snapshots"]) == 3
    newest = api.history()[0]
    assert (newest["operation"], newest["head_id"]) == ("rollback", str(first))
    assert [change["description"] for change in newest["changes"]] == [
        f"moved branch main from snapshot {third} to {first}"
    ]
    assert api.get("db.plain")["records"] == 10
    back = api.post("db.plain/rollback", {"snapshot_id": str(third)})
    assert (back["leaving"]["commits"], back["returning"]["commits"]) == (0, 2)
    assert head(api) == third
    assert api.history()[0]["operation"] == "fast-forward"


def test_the_same_rollback_again_is_done_already(api: Api) -> None:
    first, _, third = api.filled()
    body = {"snapshot_id": str(first), "expected_head": str(third)}
    api.post("db.plain/rollback", body)
    again = api.post("db.plain/rollback", body)
    assert (again["done"], again["changes"]) == (True, False)
    assert [event["operation"] for event in api.history()].count("rollback") == 1


def test_a_rollback_by_time_goes_to_what_readers_saw_then(api: Api) -> None:
    first, second, _ = api.filled()
    log = {snapshot["snapshot-id"]: snapshot["timestamp-ms"] for snapshot in api.lake.metadata(PLAIN)["snapshot-log"]}
    moment = datetime.fromtimestamp(log[second] / 1000, UTC)
    assert api.post("db.plain/rollback", {"timestamp": moment.isoformat()}, dry_run=True)["target"] == str(second)
    early = datetime.fromtimestamp(log[first] / 1000, UTC) - timedelta(days=1)
    status, message, _ = api.refused("POST", "db.plain/rollback", {"timestamp": early.isoformat()})
    assert status == 404
    assert "the table has no recorded snapshot at" in message
    assert api.refused("POST", "db.plain/rollback", {"timestamp": "2026-11-21T10:00:00"})[0] == 422


def test_a_rollback_to_nowhere_is_refused(api: Api) -> None:
    api.lake.create()
    assert api.refused("POST", "db.plain/rollback", {"snapshot_id": "1"})[0] == 404
    assert api.refused("POST", "db.plain/rollback", {})[0] == 400
    assert api.refused("POST", "db.plain/rollback", {"snapshot_id": "main"})[0] == 400
    api.lake.append(PLAIN)
    assert api.refused("POST", "db.plain/rollback", {"snapshot_id": "1"})[0] == 404
    assert api.refused("POST", "db.plain/rollback", {"snapshot_id": "main", "expected_head": "x"})[0] == 400


def test_a_keyed_table_and_its_stores_are_not_rolled_back(api: Api) -> None:
    api.lake.create_keyed()
    first = api.lake.append(CHANGE)
    api.lake.append(CHANGE)
    for table in ("db.orders", "db.orders.base", "db.orders.change"):
        status, message, hint = api.refused("POST", f"{table}/rollback", {"snapshot_id": str(first)}, dry_run=True)
        assert status == 409
        assert "only move together" in message
        assert "firn.spark.upsert" in hint
    shown = api.get("db.orders")
    assert "only move together" in shown["unavailable_actions"]["rollback"]
    assert "tag" in shown["allowed_actions"]
    assert "branch" in shown["unavailable_actions"]


def test_a_plain_table_says_what_it_takes(api: Api) -> None:
    api.filled(1)
    assert {"tag", "branch", "rollback"} <= set(api.get("db.plain")["allowed_actions"])


# --- comparison ------------------------------------------------------------------------------------------------------


def test_two_snapshots_are_compared_by_columns_properties_rows_and_commits(api: Api) -> None:
    first, _ = api.filled(2)
    metadata = api.lake.metadata(PLAIN)
    field = {"id": metadata["last-column-id"] + 1, "name": "price", "type": "int", "required": False}
    schema = {**metadata["schemas"][-1], "fields": [*metadata["schemas"][-1]["fields"], field]}
    updates = [
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
        set_property("owner", "ann"),
    ]
    api.http.post(
        "/iceberg/v1/lake/namespaces/db/tables/plain", json={"requirements": [], "updates": updates}
    ).raise_for_status()
    last = api.lake.append(PLAIN)
    comparison = api.get("db.plain/compare", **{"from": str(first), "to": "main"})
    assert [change["description"] for change in comparison["changes"]] == [
        "added column price (int)",
        "set property owner to ann",
    ]
    assert (comparison["first"]["totals"]["rows"], comparison["second"]["totals"]["rows"]) == (10, 30)
    assert (comparison["only_in_first"]["commits"], comparison["only_in_second"]["commits"]) == (0, 2)
    assert comparison["only_in_second"]["newest"][0]["snapshot_id"] == str(last)
    assert comparison["unknown"] == []
    back = api.get("db.plain/compare", **{"from": "main", "to": str(first)})
    assert [change["description"] for change in back["changes"]] == [
        "dropped column price (int)",
        "removed property owner (was ann)",
    ]


def test_entries_of_the_history_are_states_too(api: Api) -> None:
    first, _ = api.filled(2)
    api.post("db.plain/rollback", {"snapshot_id": str(first)})
    rolled_back, second, _, created = (f"@{event['id']}" for event in api.history())
    comparison = api.get("db.plain/compare", **{"from": second, "to": rolled_back})
    assert (comparison["only_in_first"]["commits"], comparison["only_in_second"]["commits"]) == (1, 0)
    whole = api.get("db.plain/compare", **{"from": created, "to": second})
    assert (whole["first"]["snapshot_id"], whole["only_in_second"]["commits"]) == (None, 2)


def test_a_branch_and_main_each_have_what_the_other_lacks(api: Api) -> None:
    _, second = api.filled(2)
    api.staged(second, branch="audit")
    api.lake.append(PLAIN)
    api.lake.append(PLAIN)
    comparison = api.get("db.plain/compare", **{"from": "audit", "to": "main"})
    assert (comparison["only_in_first"]["commits"], comparison["only_in_second"]["commits"]) == (1, 2)


def test_states_that_are_not_there_or_of_two_stores_are_refused(api: Api) -> None:
    api.lake.create_keyed()
    base, change = api.lake.append(BASE), api.lake.append(CHANGE)
    assert api.refused("GET", "db.orders/compare", **{"from": "nope"})[0] == 404
    assert api.refused("GET", "db.orders/compare", **{"from": "@999999"})[0] == 404
    status, message, _ = api.refused("GET", "db.orders/compare", **{"from": str(base), "to": str(change)})
    assert (status, message) == (400, f"{base} is of db.orders.base, {change} of db.orders.change")
