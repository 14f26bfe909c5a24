"""What is answered to a request that came before: to whom asked first, and as far as they may read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from catalog.access.privileges import Grant, Privilege
from catalog.access.tokens import Secret
from catalog.names import TableName
from tests.factories import LAKE
from tests.server.asgi import Client
from tests.server.guarded import SECRET, Guarded, bearer, on
from tests.server.lake import COLUMNS

TABLES = "/iceberg/v1/lake/namespaces/secret/tables"


def uuid_of(server: Guarded, name: TableName) -> str:
    location = server.services.tables.load(LAKE, name).metadata_location
    assert location is not None
    return str(server.services.metadata.load(location).parsed["table-uuid"])


def creation(uuid: str) -> dict[str, Any]:
    return {
        "requirements": [{"type": "assert-create"}],
        "updates": [{"action": "assign-uuid", "uuid": uuid}],
    }


def keyed(token: Secret, key: str) -> Mapping[str, str]:
    return {**bearer(token), "Idempotency-Key": key}


def test_the_uuid_of_a_table_does_not_give_its_metadata_to_who_may_only_create(server: Guarded, http: Client) -> None:
    """`assert-create` and `assign-uuid` of a table that there is were answered with its metadata."""
    creator = server.token("creator", Grant(on("secret"), Privilege.CREATE))
    answer = http.post(f"{TABLES}/t", json=creation(uuid_of(server, SECRET)), headers=bearer(creator))
    # Not a refusal: the sender may have created it, and must keep its files.
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "CommitStateUnknownException")
    assert "metadata" not in answer.json()
    assert uuid_of(server, SECRET) not in answer.text


def test_a_creation_that_is_repeated_is_answered_with_the_table_to_who_may_read_it(
    server: Guarded, http: Client
) -> None:
    both = [Grant(on("secret"), privilege) for privilege in (Privilege.CREATE, Privilege.READ)]
    creator = server.token("creator", *both)
    answer = http.post(f"{TABLES}/t", json=creation(uuid_of(server, SECRET)), headers=bearer(creator))
    assert answer.status_code == 200
    assert answer.json()["metadata"]["table-uuid"] == uuid_of(server, SECRET)


def test_a_transaction_that_pretends_to_create_a_table_takes_the_right_to_write_it(
    server: Guarded, http: Client
) -> None:
    """It was judged as a creation, and told whether the table had the snapshots that it named."""
    creator = server.token("creator", Grant(on("secret"), Privilege.CREATE))
    change = {"identifier": {"namespace": ["secret"], "name": "t"}, **creation(uuid_of(server, SECRET))}
    path = "/iceberg/v1/lake/transactions/commit"
    assert http.post(path, json={"table-changes": [change]}, headers=bearer(creator)).status_code == 404


def test_an_answer_under_an_idempotency_key_is_for_who_asked_first(server: Guarded, http: Client) -> None:
    """The key and the request of somebody else brought the table's metadata to who may not read it."""
    first = server.token("first", *(Grant(on("secret"), privilege) for privilege in (Privilege.CREATE, Privilege.READ)))
    other = server.token("other", Grant(on("secret"), Privilege.CREATE))
    key, request = str(uuid4()), {"name": "made", "schema": COLUMNS}
    created = http.post(TABLES, json=request, headers=keyed(first, key))
    assert created.status_code == 200
    assert http.post(TABLES, json=request, headers=keyed(first, key)).json() == created.json()
    repeated = http.post(TABLES, json=request, headers=keyed(other, key))
    assert repeated.status_code == 409
    assert "metadata" not in repeated.json()


def test_a_refusal_under_an_idempotency_key_is_for_who_asked_first_too(server: Guarded, http: Client) -> None:
    """Otherwise somebody who guesses a key could settle it with a refusal before its owner comes."""
    first, other = (
        server.token(name, *(Grant(on("secret"), privilege) for privilege in (Privilege.CREATE, Privilege.READ)))
        for name in ("first", "other")
    )
    key = str(uuid4())
    body = {"name": "t", "schema": COLUMNS}
    assert http.post(TABLES, json=body, headers=keyed(other, key)).status_code == 409
    assert http.post(TABLES, json={"name": "made", "schema": COLUMNS}, headers=keyed(first, key)).status_code == 200


def test_a_key_stays_its_owners_with_another_token(server: Guarded, http: Client) -> None:
    """Engines renew theirs between two tries."""
    first = server.token("first", *(Grant(on("secret"), privilege) for privilege in (Privilege.CREATE, Privilege.READ)))
    key, request = str(uuid4()), {"name": "made", "schema": COLUMNS}
    created = http.post(TABLES, json=request, headers=keyed(first, key))
    again = http.post(TABLES, json=request, headers=keyed(server.another_token("first"), key))
    assert (again.status_code, again.json()) == (200, created.json())


def test_a_dry_run_of_an_upgrade_in_text_is_no_dry_run(server: Guarded, http: Client) -> None:
    """`"dry_run": "false"` was a dry run to the guard and none to the route: who could only read upgraded tables."""
    reader = server.token("reader", Grant(on("secret"), Privilege.READ))
    path = "/api/v1/catalogs/lake/hive/upgrade"
    for text in ("false", "no", "0", "off", "true", 0, 1):
        answer = http.post(path, json={"tables": ["secret.h"], "dry_run": text}, headers=bearer(reader))
        assert answer.status_code == 422, text
        assert "dry_run" in answer.text
    twice = '{"tables": ["secret.h"], "dry_run": true, "dry_run": false}'
    headers = {**bearer(reader), "Content-Type": "application/json"}
    assert http.post(path, content=twice, headers=headers).status_code == 403
