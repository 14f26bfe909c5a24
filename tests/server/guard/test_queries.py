"""Queries have the rights of their caller, when they run and when their rows are read."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from catalog.access.privileges import Grant, Privilege
from catalog.access.tokens import Secret
from tests.server.guarded import Guarded, bearer, client_of, on
from tests.server.listening import listening


@pytest.fixture(scope="module")
def http(guarded_server: Guarded) -> Iterator[httpx.Client]:
    with listening(guarded_server.app) as url, client_of(url) as client:
        yield client
    guarded_server.services.queries.stop()
    guarded_server.services.previews.stop()


@pytest.fixture(scope="module")
def reader(guarded_server: Guarded) -> Secret:
    return guarded_server.token("query-reader", Grant(on("open"), Privilege.READ))


def run(http: httpx.Client, token: Secret, statement: str, **more: object) -> httpx.Response:
    """The answer to the request; where the query was accepted, its state once it has ended."""
    body = {"statement": statement, "catalog": "lake", "wait": 10, **more}
    answer = http.post("/api/v1/queries", json=body, headers=bearer(token))
    return wait_for_end(http, token, answer) if answer.status_code == 201 else answer


def wait_for_end(http: httpx.Client, token: Secret, accepted: httpx.Response) -> httpx.Response:
    """A route waits ten seconds at most, and the first query starts a process, which takes longer on a busy machine."""
    answer, path = accepted, f"/api/v1/queries/{accepted.json()['id']}?wait=10"
    while answer.json()["state"] in ("queued", "running"):
        answer = http.get(path, headers=bearer(token)).raise_for_status()
    return answer


HIDDEN = (
    "SELECT * FROM secret.t",
    "SELECT * FROM lake.secret.t",
    "SELECT count(*) FROM open.t WHERE id IN (SELECT id FROM secret.t)",
    "SELECT * FROM open.t, secret.orders",
    "WITH q AS (SELECT * FROM secret.t) SELECT 1",
    "WITH t AS (SELECT * FROM t) SELECT * FROM t",
    "SELECT (SELECT max(id) FROM secret.t)",
    "SELECT * FROM secret.orders.base",
    "SELECT * FROM secret.orders.change",
    "SELECT * FROM secret.v",
    "EXPLAIN SELECT * FROM secret.t",
    'SELECT * FROM "secret"."t"',
    "FROM secret.t SELECT id",
    "SELECT * FROM open.t UNION ALL SELECT * FROM secret.t",
    "SELECT * FROM open.t WHERE EXISTS (FROM secret.t)",
)


@pytest.mark.parametrize("statement", HIDDEN)
def test_a_hidden_table_does_not_exist(http: httpx.Client, reader: Secret, statement: str) -> None:
    answer = run(http, reader, statement, namespace="secret")
    assert answer.status_code == 404
    assert answer.json()["error"]["message"].startswith("Table does not exist: ")
    nowhere = run(http, reader, statement.replace("secret", "nowhere"), namespace="nowhere")
    assert nowhere.status_code == 404
    assert nowhere.json()["error"]["message"] == answer.json()["error"]["message"].replace("secret", "nowhere")


def test_a_table_that_one_only_sees_is_refused(http: httpx.Client, guarded_server: Guarded) -> None:
    lister = guarded_server.token("query-lister", Grant(on("secret"), Privilege.LIST))
    answer = run(http, lister, "SELECT * FROM secret.t")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
    path = "/api/v1/catalogs/lake/tables/secret.t/preview"
    assert http.get(path, headers=bearer(lister)).status_code == 403


def test_columns_are_counted_with_the_rights_of_their_caller(
    http: httpx.Client, guarded_server: Guarded, reader: Secret
) -> None:
    lister = guarded_server.token("column-lister", Grant(on("secret"), Privilege.LIST))
    hidden = "/api/v1/catalogs/lake/tables/secret.t/distributions"
    assert http.post(hidden, json={"column": "id"}, headers=bearer(reader)).status_code == 404
    assert http.post(hidden, json={"column": "id"}, headers=bearer(lister)).status_code == 403
    path = "/api/v1/catalogs/lake/tables/open.t/distributions"
    answer = http.post(path, json={"column": "id"}, headers=bearer(reader))
    assert answer.status_code == 201, answer.text
    shown = f"{path}/{answer.json()['query']['id']}"
    assert http.get(shown, headers=bearer(reader)).status_code == 200
    other = guarded_server.token("column-other", Grant(on("open"), Privilege.READ))
    assert http.get(shown, headers=bearer(other)).status_code == 404, "it is a query of its caller"
    assert http.get(shown.replace("open.t", "secret.t"), headers=bearer(reader)).status_code == 404


def test_ones_own_tables_are_read_and_the_audit_log_names_them(
    http: httpx.Client, guarded_server: Guarded, reader: Secret
) -> None:
    answer = run(http, reader, "SELECT count(*) FROM open.t")
    assert answer.json()["state"] == "done", answer.text
    preview = http.get("/api/v1/catalogs/lake/tables/open.t/preview", headers=bearer(reader))
    assert preview.json()["rows"] == []
    guarded_server.services.access.audit_log.flush()
    entries = http.get("/api/v1/audit?principal=query-reader&limit=200", headers=bearer(guarded_server.admin)).json()
    mine = [entry for entry in entries["items"] if entry["route"] == "/api/v1/queries" and entry["method"] == "POST"]
    assert {"lake.open.t"} <= {entry["target"] for entry in mine if entry["verdict"] == "allowed"}
    assert any("secret.t" in entry["target"] for entry in mine if entry["verdict"] == "hidden")


def test_a_query_belongs_to_its_caller(http: httpx.Client, guarded_server: Guarded, reader: Secret) -> None:
    query = run(http, reader, "SELECT id FROM open.t").json()["id"]
    other = guarded_server.token("query-other", *(Grant(on("open"), privilege) for privilege in Privilege))
    for token in (other, guarded_server.admin):
        for path in ("", "/rows", "/csv", "/parquet"):
            assert http.get(f"/api/v1/queries/{query}{path}", headers=bearer(token)).status_code == 404
        assert http.delete(f"/api/v1/queries/{query}", headers=bearer(token)).status_code == 404
        assert query not in http.get("/api/v1/queries", headers=bearer(token)).text
    assert http.get(f"/api/v1/queries/{query}/rows", headers=bearer(reader)).status_code == 200


def test_rows_are_not_read_any_more_without_the_right(http: httpx.Client, guarded_server: Guarded) -> None:
    loser = guarded_server.token("query-loser", Grant(on("open"), Privilege.READ))
    query = run(http, loser, "SELECT id FROM open.t").json()["id"]
    assert http.get(f"/api/v1/queries/{query}/rows", headers=bearer(loser)).status_code == 200
    body = {"on": {"catalog": "lake", "namespace": ["open"]}, "privileges": ["read"]}
    admin = bearer(guarded_server.admin)
    assert http.post("/api/v1/roles/role-of-query-loser/grants/revoke", json=body, headers=admin).status_code < 300
    for path in ("rows", "csv", "parquet"):
        answer = http.get(f"/api/v1/queries/{query}/{path}", headers=bearer(loser))
        assert answer.status_code in (403, 404), path


def test_saved_queries_are_shared_by_choice(http: httpx.Client, guarded_server: Guarded, reader: Secret) -> None:
    other = guarded_server.token("query-sharer", Grant(on("open"), Privilege.READ))
    body = {"name": "mine", "statement": "SELECT 1", "catalog": "lake"}
    saved_query = http.post("/api/v1/saved-queries", json=body, headers=bearer(reader)).json()

    def seen_by(token: Secret) -> list[str]:
        return [saved["id"] for saved in http.get("/api/v1/saved-queries", headers=bearer(token)).json()]

    assert saved_query["id"] in seen_by(reader)
    assert saved_query["id"] not in seen_by(other)
    path = f"/api/v1/saved-queries/{saved_query['id']}"
    assert http.put(path, json=body | {"shared": True}, headers=bearer(other)).status_code == 404
    assert http.put(path, json=body | {"shared": True}, headers=bearer(reader)).status_code == 200
    assert saved_query["id"] in seen_by(other)
    assert http.delete(path, headers=bearer(other)).status_code == 404
    assert http.delete(path, headers=bearer(reader)).status_code == 204


HIDDEN_FROM_THE_CATALOG = (
    "DESCRIBE secret.t",
    "DESC EXTENDED lake.secret.t",
    "DESCRIBE HISTORY secret.orders",
    "DESCRIBE secret.t id",
    "SHOW COLUMNS IN t IN secret",
    "SHOW TBLPROPERTIES secret.t",
    "SHOW CREATE TABLE `secret`.`t`",
    "SHOW CREATE TABLE secret.v",
)


@pytest.mark.parametrize("engine", ["instant", "spark"])
@pytest.mark.parametrize("statement", HIDDEN_FROM_THE_CATALOG)
def test_a_hidden_table_is_not_described(http: httpx.Client, reader: Secret, statement: str, engine: str) -> None:
    answer = run(http, reader, statement, engine=engine)
    assert answer.status_code == 404
    nowhere = run(http, reader, statement.replace("secret", "nowhere"), engine=engine)
    assert nowhere.json()["error"]["message"] == answer.json()["error"]["message"].replace("secret", "nowhere")


@pytest.mark.parametrize(
    "statement", ["SHOW TABLES IN secret", "DESCRIBE NAMESPACE lake.secret", "SHOW VIEWS IN secret"]
)
def test_a_hidden_namespace_does_not_exist(http: httpx.Client, reader: Secret, statement: str) -> None:
    answer = run(http, reader, statement)
    assert answer.status_code == 404
    nowhere = run(http, reader, statement.replace("secret", "nowhere"))
    assert nowhere.json()["error"]["message"] == answer.json()["error"]["message"].replace("secret", "nowhere")


def rows_of(http: httpx.Client, token: Secret, statement: str, **more: object) -> list[list[str | None]]:
    query = run(http, token, statement, **more).json()
    answer = http.get(f"/api/v1/queries/{query['id']}/rows", headers=bearer(token)).raise_for_status()
    return [list(row) for row in answer.json()["rows"]]


def test_who_may_read_one_table_of_two_sees_this_one(http: httpx.Client, guarded_server: Guarded) -> None:
    of_one_table = guarded_server.token("query-one", Grant(on("secret", table="t"), Privilege.READ))
    assert rows_of(http, of_one_table, "SHOW TABLES IN secret") == [["secret", "t", "plain"]]
    assert rows_of(http, of_one_table, "SHOW TABLES", engine="spark") == [["secret", "t", "plain"]]
    assert rows_of(http, of_one_table, "SHOW TABLES LIKE '*'", namespace="secret") == [["secret", "t", "plain"]]
    assert rows_of(http, of_one_table, "SHOW VIEWS IN secret") == []
    assert rows_of(http, of_one_table, "SHOW NAMESPACES") == [["secret"]]
    assert rows_of(http, of_one_table, "DESCRIBE secret.t")[0][0] == "id"
    limited = run(http, of_one_table, "SHOW TABLES IN secret", limit=1).json()
    assert (limited["rows"], limited["truncated"]) == (1, False), "it does not tell that there are others"
    for hidden in ("secret.orders", "secret.v"):
        assert run(http, of_one_table, f"DESCRIBE {hidden}").status_code == 404
    everything = rows_of(http, guarded_server.admin, "SHOW TABLES IN secret")
    assert {"t", "orders", "v"} <= {row[1] for row in everything}


def test_a_table_that_one_only_sees_is_listed_and_not_described(http: httpx.Client, guarded_server: Guarded) -> None:
    lister = guarded_server.token("query-show-lister", Grant(on("secret"), Privilege.LIST))
    assert ["secret", "t", "plain"] in rows_of(http, lister, "SHOW TABLES IN secret")
    for statement in ("DESCRIBE secret.t", "SHOW CREATE TABLE secret.t", "SHOW TBLPROPERTIES secret.t"):
        assert run(http, lister, statement).status_code == 403


def test_the_catalogs_statements_are_audited_and_their_rows_are_the_callers(
    http: httpx.Client, guarded_server: Guarded, reader: Secret
) -> None:
    query = run(http, reader, "DESCRIBE open.t").json()["id"]
    run(http, reader, "SHOW TABLES IN open")
    other = guarded_server.token("query-show-other", Grant(on("open"), Privilege.READ))
    assert http.get(f"/api/v1/queries/{query}/rows", headers=bearer(other)).status_code == 404
    guarded_server.services.access.audit_log.flush()
    entries = http.get("/api/v1/audit?principal=query-reader&limit=500", headers=bearer(guarded_server.admin)).json()
    targets = {entry["target"] for entry in entries["items"] if entry["route"] == "/api/v1/queries"}
    assert any("lake.open.t" in target for target in targets)
    assert any(target.endswith("lake.open") for target in targets), targets


def test_current_user_is_the_caller(http: httpx.Client, reader: Secret) -> None:
    assert rows_of(http, reader, "SELECT current_user, user, session_user()") == [["query-reader"] * 3]
