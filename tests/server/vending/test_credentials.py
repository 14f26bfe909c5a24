"""Credentials that come with tables: who gets which, for how long, and when there are none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyarrow.fs import S3FileSystem
from pyiceberg.catalog.rest import RestCatalog

from catalog.access.privileges import Grant, Privilege
from catalog.credentials.reach import Reach, S3Place
from catalog.credentials.session_policy import build_session_policy
from catalog.history.commit import TableCommit
from catalog.keyed.spec import KeySpec
from catalog.names import TableName
from server.guard import route_rules
from server.iceberg.credentials import REFUSED
from server.service.commit.commit_path import CommitRequest
from tests.server.guarded import on, token_for
from tests.server.lake import definition
from tests.server.older_tables import before_the_location_rule
from tests.server.vending.vault import (
    BOTH,
    OTHER,
    PATH,
    ROLE,
    SERVERS_KEYS,
    SIGNS,
    STATIC_KEYS,
    STS,
    TABLE,
    VAULT,
    VENDED,
    Vault,
)

READ, WRITE, CREATE, MAINTAIN = Privilege.READ, Privilege.WRITE, Privilege.CREATE, Privilege.MAINTAIN


@pytest.fixture
def url(vault: Vault) -> Iterator[str]:
    with vault.listening() as url:
        yield url


def loaded(client: httpx.Client, table: str = "orders", **headers: str) -> dict[str, Any]:
    answer = client.get(f"{PATH}/{table}", headers=VENDED | headers)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def reach(vault: Vault, name: TableName, *, write: bool) -> Reach:
    place = S3Place.of(vault.location(name))
    assert place is not None
    return Reach.to([place], write=write)


def test_a_reader_gets_credentials_to_read_and_a_writer_to_write(vault: Vault, url: str) -> None:
    vault.configure(STS)
    for user, privilege, write in (("ada", READ, False), ("bob", WRITE, True), ("cyd", MAINTAIN, True)):
        answer = loaded(vault.client(url, vault.token(user, privilege)))
        assert vault.cloud.policies[-1] == build_session_policy(reach(vault, TABLE, write=write))
        assert vault.cloud.sessions[-1] == f"firn={user}=db.orders"
        (credential,) = answer["storage-credentials"]
        assert credential["prefix"] == vault.location(TABLE)
        assert credential["config"].items() <= answer["config"].items()  # for older clients
        until = int(credential["config"]["s3.session-token-expires-at-ms"]) / 1000
        assert 3500 < until - datetime.now(UTC).timestamp() <= 3600


def test_credentials_are_handed_out_again_to_the_same_caller_only(vault: Vault, url: str) -> None:
    vault.configure(STS)
    ada, bob = (vault.client(url, vault.token(user, READ)) for user in ("ada", "bob"))
    keys = [loaded(client)["config"]["s3.access-key-id"] for client in (ada, ada, bob)]
    assert keys[0] == keys[1] != keys[2]
    assert len(vault.cloud.sessions) == 2


def test_a_load_without_the_header_gets_nothing_and_asks_nobody(vault: Vault, url: str) -> None:
    vault.configure(STS | SIGNS)
    answer = vault.client(url).get(f"{PATH}/orders")
    assert "storage-credentials" not in answer.json()
    assert not any(key.startswith(("s3.", "firn.storage")) for key in answer.json()["config"])
    assert not vault.cloud.sessions


def test_new_credentials_are_fetched_where_the_load_says(vault: Vault, url: str) -> None:
    vault.configure(STS)
    client = vault.client(url, vault.token("ada", READ))
    endpoint = loaded(client)["config"]["client.refresh-credentials-endpoint"]
    answer = client.get(f"/iceberg/{endpoint}", params={"planId": "p"})
    assert answer.headers["cache-control"] == "no-store"
    (credential,) = answer.json()["storage-credentials"]
    assert credential["config"]["s3.session-token"]


def test_a_caller_without_read_gets_no_credentials(vault: Vault, url: str) -> None:
    vault.configure(STS | SIGNS)
    for token in (vault.token("eve", READ, table="customers"), vault.token("lou", Privilege.LIST)):
        client = vault.client(url, token)
        for answer in (client.get(f"{PATH}/orders", headers=BOTH), client.get(f"{PATH}/orders/credentials")):
            assert answer.status_code in (403, 404)
            assert "s3." not in answer.text
    assert not vault.cloud.sessions


def test_a_caller_who_may_only_create_gets_no_credentials_for_existing_tables(vault: Vault, url: str) -> None:
    vault.configure(STS)
    client = vault.client(url, vault.token("cat", CREATE, table=None))
    body = {"name": "mine", "schema": definition(TABLE).schema}
    created = client.post(PATH, json=body, headers=VENDED)
    assert created.status_code == 200
    assert "s3.access-key-id" not in created.text
    assert created.json()["config"][REFUSED] == "it needs the privilege to read the table"
    staged = client.post(PATH, json={**body, "name": "next", "stage-create": True}, headers=VENDED).json()
    assert staged["config"]["s3.access-key-id"]
    place = S3Place.of(staged["metadata"]["location"])
    assert place is not None
    assert vault.cloud.policies == [build_session_policy(Reach.to([place], write=True))]


def test_pyiceberg_writes_and_reads_with_nothing_but_what_it_was_given(vault: Vault, url: str) -> None:
    vault.configure(STS)
    token = vault.token("ada", WRITE, CREATE, table=None)
    catalog = RestCatalog("lake", uri=f"{url}/iceberg", warehouse="lake", token=token.text)
    table = catalog.create_table("db.made", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2, 3]}))
    assert catalog.load_table("db.made").scan().to_arrow()["id"].to_pylist() == [1, 2, 3]
    assert {key for key in table.io.properties if "secret" in key} == {"s3.secret-access-key"}
    assert table.io.properties["s3.access-key-id"].startswith("ASIA")


def test_pyarrow_writes_and_reads_with_vended_keys(vault: Vault, url: str) -> None:
    vault.configure(STS)
    config = loaded(vault.client(url, vault.token("ada", WRITE)))["storage-credentials"][0]["config"]
    files = S3FileSystem(
        access_key=config["s3.access-key-id"],
        secret_key=config["s3.secret-access-key"],
        session_token=config["s3.session-token"],
        endpoint_override=config["s3.endpoint"],
        region=config["client.region"],
    )
    path = f"{vault.location(TABLE).removeprefix('s3://')}/data/a"
    with files.open_output_stream(path) as out:
        out.write(b"rows")
    with files.open_input_stream(path) as read:
        assert read.read() == b"rows"


# --- entity tags -----------------------------------------------------------------------------------------------------


def test_a_client_keeps_an_answer_as_long_as_its_credentials_hold(vault: Vault, url: str) -> None:
    vault.configure(STS)
    client = vault.client(url, vault.token("ada", READ))
    tag = client.get(f"{PATH}/orders", headers=VENDED).headers["etag"]
    again = client.get(f"{PATH}/orders", headers=VENDED | {"If-None-Match": tag})
    assert again.status_code == 304
    bare = client.get(f"{PATH}/orders", headers={"If-None-Match": tag})
    assert bare.status_code == 200


def test_a_client_is_never_told_to_keep_credentials_that_have_ended(vault: Vault, url: str) -> None:
    vault.configure(STS)
    vault.cloud.lives = lambda: datetime.now(UTC) + timedelta(milliseconds=20)
    client = vault.client(url, vault.token("ada", READ))
    first = client.get(f"{PATH}/orders", headers=VENDED)
    vault.cloud.lives = None
    while datetime.now(UTC).timestamp() * 1000 < int(first.json()["config"]["s3.session-token-expires-at-ms"]):
        pass
    again = client.get(f"{PATH}/orders", headers=VENDED | {"If-None-Match": first.headers["etag"]})
    assert again.status_code == 200
    assert again.json()["config"]["s3.access-key-id"] != first.json()["config"]["s3.access-key-id"]


def test_other_rights_are_another_answer(vault: Vault, url: str) -> None:
    vault.configure(STS)
    reader, writer = (
        vault.client(url, vault.token(user, privilege)) for user, privilege in (("ada", READ), ("bob", WRITE))
    )
    tag = reader.get(f"{PATH}/orders", headers=VENDED).headers["etag"]
    assert writer.get(f"{PATH}/orders", headers=VENDED | {"If-None-Match": tag}).status_code == 200


# --- other ways of vending -------------------------------------------------------------------------------------------


def test_without_vending_clients_are_told_where_the_storage_is(vault: Vault, url: str) -> None:
    answer = loaded(vault.client(url))
    hints = {"s3.endpoint": vault.s3, "s3.region": "us-east-1", "client.region": "us-east-1"}
    assert hints.items() <= answer["config"].items()
    assert "storage-credentials" not in answer
    defaults = vault.client(url).get("/iceberg/v1/config?warehouse=lake").json()["defaults"]
    assert defaults == {**hints, "token-exchange-enabled": "false"}
    assert vault.client(url).get(f"{PATH}/orders/credentials").json() == {"storage-credentials": []}


def test_static_keys_are_those_of_readers_or_of_writers(vault: Vault, url: str) -> None:
    vault.configure({"firn.storage.vending": "static"})
    answers = {
        user: loaded(vault.client(url, vault.token(user, privilege)))["config"]["s3.access-key-id"]
        for user, privilege in (("ada", READ), ("bob", WRITE))
    }
    assert answers == {"ada": "AKIAREAD", "bob": "AKIAWRITE"}


def test_a_storage_that_gives_nothing_keeps_nobody_from_the_metadata(vault: Vault, url: str) -> None:
    vault.configure(STS | {"firn.storage.s3.sts-endpoint": "http://127.0.0.1:9"})
    answer = loaded(vault.client(url))
    assert "the storage gives none" in answer["config"][REFUSED]
    assert vault.client(url).get(f"{PATH}/orders/credentials").status_code == 403


# --- whose files are whose -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["same", "inside", "around", "dropped"])
def test_tables_that_share_a_place_are_vended_to_nobody(vault: Vault, url: str, where: str) -> None:
    orders = vault.location(TABLE)
    places = {"inside": f"{orders}/data/x", "around": f"s3://{vault.bucket}/wh/db"}
    with before_the_location_rule():
        vault.create(TableName(("db",), "shared"), location=places.get(where, orders).replace("s3://", "s3a://"))
    if where == "dropped":
        vault.services.tables.drop(VAULT, TableName(("db",), "shared"))
    vault.configure(STS)
    for name in ("orders",) if where == "dropped" else ("orders", "shared"):
        answer = loaded(vault.client(url), name)
        assert answer["config"][REFUSED] == "another table's files lie in or around its own"
        assert "storage-credentials" not in answer
    assert ("storage-credentials" in loaded(vault.client(url), "customers")) is (where != "around")


@pytest.mark.parametrize("location", ["{orders}", "{orders}/", "{orders}/data/x", "s3://{bucket}/wh/db"])
def test_no_table_is_made_in_anothers_place_whether_or_not_access_is_handed_out(
    vault: Vault, url: str, location: str
) -> None:
    vault.configure(STS)
    place = location.format(orders=vault.location(TABLE), bucket=vault.bucket)
    body = {"name": "shared", "schema": definition(TABLE).schema, "location": place}
    answer = vault.client(url).post(PATH, json=body)
    assert answer.status_code == 400, answer.text
    assert "another table" in answer.text
    assert "db.orders" not in answer.text
    vault.configure({"firn.storage.vending": "none"})
    assert vault.client(url).post(PATH, json=body).status_code == 400


@pytest.mark.parametrize(
    "update",
    [
        {"action": "set-location", "location": "{other}"},
        {"action": "set-location", "location": "{other}/data"},
        {"action": "set-properties", "updates": {"write.data.path": "{other}/data"}},
        {"action": "set-properties", "updates": {"write.metadata.path": "{other}"}},
    ],
)
def test_no_commit_sends_a_tables_files_to_anothers_place(vault: Vault, url: str, update: dict[str, Any]) -> None:
    vault.configure(STS)
    client = vault.client(url, vault.token("bob", WRITE))
    hostile_update = json.loads(json.dumps(update).replace("{other}", vault.location(OTHER)))
    answer = client.post(f"{PATH}/orders", json={"requirements": [], "updates": [hostile_update]})
    assert answer.status_code == 400, answer.text
    assert loaded(client)["metadata"]["location"] == vault.location(TABLE)


def test_a_path_that_one_table_writes_to_is_taken_for_others_too(vault: Vault, url: str) -> None:
    vault.configure(STS)
    apart = f"s3://{vault.bucket}/wh/apart"
    client = vault.client(url)
    change = {"action": "set-properties", "updates": {"write.data.path": apart}}
    assert client.post(f"{PATH}/orders", json={"requirements": [], "updates": [change]}).status_code == 200
    assert client.post(f"{PATH}/customers", json={"requirements": [], "updates": [change]}).status_code == 400
    answer = loaded(client)
    assert answer["storage-credentials"][0]["prefix"] == f"s3://{vault.bucket}/wh"
    places = [S3Place.of(place) for place in (vault.location(TABLE), apart)]
    assert vault.cloud.policies == [build_session_policy(Reach.to([place for place in places if place], write=True))]


def test_what_a_table_has_left_is_read_only(vault: Vault, url: str) -> None:
    vault.configure(STS)
    before, after = vault.location(TABLE), f"s3://{vault.bucket}/wh/moved"
    vault.services.committer.commit(
        CommitRequest(
            catalog=VAULT, changes=[TableCommit(name=TABLE, updates=[{"action": "set-location", "location": after}])]
        )
    )
    loaded(vault.client(url))
    old, new = S3Place.of(before), S3Place.of(after)
    assert old is not None
    assert new is not None
    assert vault.cloud.policies == [build_session_policy(Reach.to([new], [old], write=True))]


@pytest.mark.parametrize("location", ["s3://secrets/x", "s3://{bucket}/elsewhere", "s3://{bucket}/wh2/t"])
def test_places_outside_the_warehouse_are_not_handed_out(vault: Vault, url: str, location: str) -> None:
    """A writer chooses the location, the server's keys open far more than tables."""
    vault.configure(STS)
    update = {"action": "set-properties", "updates": {"write.data.path": location.format(bucket=vault.bucket)}}
    client = vault.client(url, vault.token("bob", WRITE))
    with before_the_location_rule():
        assert client.post(f"{PATH}/orders", json={"requirements": [], "updates": [update]}).status_code == 200
    assert "is not inside an allowed location" in loaded(client)["config"][REFUSED]
    vault.configure({"firn.storage.allowed-locations": location.format(bucket=vault.bucket).rpartition("/")[0]})
    assert "storage-credentials" in loaded(client)


def test_a_stores_credentials_open_the_store_and_a_pinned_one_is_read(vault: Vault, url: str) -> None:
    vault.configure(STS)
    name = TableName(("db",), "keyed")
    vault.services.keyed.create(VAULT, definition(name), KeySpec(primary_key=("id",)))
    pin = vault.services.keyed.pin(VAULT, name)
    client = vault.client(url)
    for store, write in (("base", True), ("change", True), (pin.base_name, False)):
        path = f"/iceberg/v1/lake/namespaces/db%1Fkeyed/tables/{store}"
        answer = client.get(path, headers=VENDED)
        assert answer.status_code == 200, answer.text
        real = TableName(("db", "keyed"), "change" if store == "change" else "base")
        assert vault.cloud.policies[-1] == build_session_policy(reach(vault, real, write=write))
        endpoint = answer.json()["config"]["client.refresh-credentials-endpoint"]
        assert client.get(f"/iceberg/{endpoint}").status_code == 200


# --- secrets ---------------------------------------------------------------------------------------------------------


def test_no_management_route_tells_the_servers_keys(vault: Vault, url: str) -> None:
    vault.configure(STS)
    client = vault.client(url)
    paths = [path for method, path in route_rules.API if method == "GET" and path.count("{") == path.count("{catalog}")]
    answers = [client.get(f"/api/v1{path.format(catalog='lake')}").text for path in paths]
    assert any(ROLE in text for text in answers)
    secrets = [SERVERS_KEYS["s3.secret-access-key"], STATIC_KEYS["read_key_secret"], STATIC_KEYS["write_key_secret"]]
    assert not [text for text in answers for secret in secrets if secret in text]


def test_keys_cannot_be_properties(vault: Vault, url: str) -> None:
    answer = vault.client(url).patch(
        "/api/v1/catalogs/lake/properties", json={"set": {"firn.storage.s3.secret-access-key": "x"}}
    )
    assert answer.status_code == 400


def test_a_catalogs_maintainer_does_not_choose_the_role(vault: Vault, url: str) -> None:
    """The role opens what the server may open: choosing it is for whoever may create catalogs."""
    token = token_for(vault.services, vault.admin, "may", Grant(on(), MAINTAIN))
    client, path = vault.client(url, token), "/api/v1/catalogs/lake/properties"
    assert client.patch(path, json={"set": {"team": "sales"}}).status_code == 200
    for body in ({"set": STS}, {"remove": ["firn.storage.s3.endpoint"]}):
        assert client.patch(path, json=body).status_code == 403
    assert vault.client(url).patch(path, json={"set": STS}).status_code == 200


def test_the_servers_keys_stay_with_the_server(vault: Vault, url: str) -> None:
    vault.configure(STS)
    text = vault.client(url).get(f"{PATH}/orders", headers=BOTH).text
    assert SERVERS_KEYS["s3.access-key-id"] not in text
    assert SERVERS_KEYS["s3.secret-access-key"] not in text
