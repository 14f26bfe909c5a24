"""PyIceberg, as a client that knows nothing of Firn, over a real socket."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestampType

from tests.spark_fixtures import ServerProcess, server_process

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "at", TimestampType(), required=False),
)


def rows(*ids: int) -> pa.Table:
    return pa.table(
        {"id": list(ids), "name": [f"n{i}" for i in ids], "at": pa.array([None] * len(ids), pa.timestamp("us"))}
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def catalog(server: ServerProcess, request: pytest.FixtureRequest) -> RestCatalog:
    catalog = RestCatalog("lake", uri=f"{server.url}/iceberg", warehouse="lake")
    catalog.create_namespace((request.node.name[:60],))
    return catalog


@pytest.fixture
def space(request: pytest.FixtureRequest) -> str:
    name: str = request.node.name[:60]
    return name


def test_namespaces_are_created_listed_changed_and_dropped(catalog: RestCatalog, space: str) -> None:
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace((space,))
    catalog.create_namespace((space, "inner"), {"owner": "me"})
    assert catalog.list_namespaces((space,)) == [(space, "inner")]
    catalog.update_namespace_properties((space, "inner"), removals={"owner"}, updates={"team": "us"})
    properties = catalog.load_namespace_properties((space, "inner"))
    assert properties.pop("location").endswith(f"/{space}/inner")
    assert properties == {"team": "us"}
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace((space,))
    catalog.drop_namespace((space, "inner"))
    assert not catalog.namespace_exists((space, "inner"))


@pytest.mark.parametrize("odd", ["with space", "50%", "a%20b", "a/b", "ünï.code", "x+y&z=1"])
def test_namespaces_below_one_with_an_odd_name_are_listed(catalog: RestCatalog, space: str, odd: str) -> None:
    for path in ((space, odd), (space, odd, odd), (space, odd, odd, "deep")):
        catalog.create_namespace(path)
    assert catalog.list_namespaces((space, odd)) == [(space, odd, odd)]
    assert catalog.list_namespaces((space, odd, odd)) == [(space, odd, odd, "deep")]


def test_a_percent_sign_is_one_for_every_client_but_pyiceberg(server: ServerProcess, catalog: RestCatalog) -> None:
    for name, below in (("twice a b", "spaces"), ("twice%20a%20b", "signs")):
        catalog.create_namespace((name,))
        catalog.create_namespace((name, below))
    params = {"parent": "twice%20a%20b"}
    listed = server.http.get("/iceberg/v1/lake/namespaces", params=params).json()["namespaces"]
    assert listed == [["twice%20a%20b", "signs"]]
    assert catalog.list_namespaces(("twice a b",)) == [("twice a b", "spaces")]


def test_a_table_is_written_read_evolved_renamed_and_dropped(catalog: RestCatalog, space: str) -> None:
    table = catalog.create_table((space, "t"), SCHEMA)
    table.append(rows(1, 2))
    with table.update_schema() as update:
        update.add_column("extra", StringType())
        update.rename_column("name", "label")
    with table.update_spec() as spec:
        spec.add_field("extra", IdentityTransform(), "extra")
    table.overwrite(pa.table({"id": [3], "label": ["x"], "at": pa.array([None], pa.timestamp("us")), "extra": ["y"]}))
    assert catalog.load_table((space, "t")).scan().to_arrow()["id"].to_pylist() == [3]
    catalog.rename_table((space, "t"), (space, "t2"))
    assert catalog.list_tables(space) == [(space, "t2")]
    catalog.drop_table((space, "t2"))
    with pytest.raises(NoSuchTableError):
        catalog.load_table((space, "t2"))


def test_errors_have_the_names_that_clients_know(catalog: RestCatalog, space: str) -> None:
    catalog.create_table((space, "t"), SCHEMA)
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table((space, "t"), SCHEMA)
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table(("nowhere", "t"), SCHEMA)
    with pytest.raises(NoSuchTableError):
        catalog.load_table((space, "other"))


def test_two_writers_lose_nothing_because_the_second_looks_again(catalog: RestCatalog, space: str) -> None:
    first = catalog.create_table((space, "t"), SCHEMA)
    second = catalog.load_table((space, "t"))
    first.append(rows(1))
    second.append(rows(2))
    assert sorted(catalog.load_table((space, "t")).scan().to_arrow()["id"].to_pylist()) == [1, 2]


def test_a_create_transaction_brings_table_and_data_at_once(catalog: RestCatalog, space: str) -> None:
    with catalog.create_table_transaction((space, "t"), SCHEMA) as transaction:
        transaction.append(rows(1))
        assert not catalog.table_exists((space, "t"))
    assert catalog.load_table((space, "t")).scan().to_arrow()["id"].to_pylist() == [1]


def test_registering_takes_a_table_over_by_its_metadata(catalog: RestCatalog, space: str) -> None:
    table = catalog.create_table((space, "t"), SCHEMA)
    table.append(rows(1))
    catalog.drop_table(table.name())
    again = catalog.register_table((space, "again"), table.metadata_location)
    assert again.scan().to_arrow()["id"].to_pylist() == [1]


def test_metadata_is_not_sent_again_to_a_client_that_has_it(
    catalog: RestCatalog, server: ServerProcess, space: str
) -> None:
    catalog.create_table((space, "t"), SCHEMA)
    url = f"{server.url}/iceberg/v1/lake/namespaces/{space}/tables/t"
    first = httpx.get(url)
    again = httpx.get(url, headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    catalog.load_table((space, "t")).append(rows(1))
    assert httpx.get(url, headers={"If-None-Match": first.headers["etag"]}).status_code == 200


def test_snapshots_can_be_cut_to_those_that_refs_name(catalog: RestCatalog, server: ServerProcess, space: str) -> None:
    table = catalog.create_table((space, "t"), SCHEMA)
    for number in range(3):
        table.append(rows(number))
    url = f"{server.url}/iceberg/v1/lake/namespaces/{space}/tables/t"
    whole, cut = (httpx.get(url, params={"snapshots": which}).json()["metadata"] for which in ("all", "refs"))
    assert (len(whole["snapshots"]), len(cut["snapshots"])) == (3, 1)


def test_lists_come_in_pages(catalog: RestCatalog, server: ServerProcess, space: str) -> None:
    for number in range(5):
        catalog.create_table((space, f"t{number}"), SCHEMA)
    url, names = f"{server.url}/iceberg/v1/lake/namespaces/{space}/tables", []
    token: str | None = ""
    while token is not None:
        page = httpx.get(url, params={"pageSize": 2, "pageToken": token}).json()
        names += [identifier["name"] for identifier in page["identifiers"]]
        token = page["next-page-token"]
    assert names == [f"t{number}" for number in range(5)]
    assert len(catalog.list_tables(space)) == 5


def test_a_primary_key_in_the_properties_makes_a_keyed_table(
    catalog: RestCatalog, server: ServerProcess, space: str
) -> None:
    table = catalog.create_table((space, "orders"), SCHEMA, properties={"firn.primary-key": "id"})
    assert table.metadata.schema().find_field("id").required
    assert catalog.list_tables((space, "orders")) == [(space, "orders", "base"), (space, "orders", "change")]
    assert catalog.list_tables(space) == [(space, "orders")]
    assert catalog.list_views(space) == []
    assert catalog.list_views((space, "orders")) == [(space, "orders", "merged")]
    change = catalog.load_table((space, "orders", "change"))
    assert change.metadata.format_version == 3
    base = catalog.load_table((space, "orders", "base"))
    snapshot = base.current_snapshot()
    at = "none" if snapshot is None else snapshot.snapshot_id
    pinned = catalog.load_table((space, "orders", f"base_at_{at}_{base.metadata.current_schema_id}"))
    assert pinned.scan().to_arrow().num_rows == 0
    with pytest.raises(BadRequestError, match="is a past state of the keyed table"):
        pinned.transaction().set_properties(a="b").commit_transaction()


def test_the_change_store_refuses_what_is_no_append(catalog: RestCatalog, space: str) -> None:
    catalog.create_table((space, "orders"), SCHEMA, properties={"firn.primary-key": "id"})
    change = catalog.load_table((space, "orders", "change"))
    with pytest.raises(CommitFailedException, match="fixed"):
        change.transaction().set_properties({"gc.enabled": "true"}).commit_transaction()


@pytest.mark.parametrize("odd", ["a.b", "a/b", "a b", "Größe 表", "a%2Fb", "`"])
def test_names_may_hold_any_character_that_can_be_seen(server: ServerProcess, odd: str) -> None:
    catalog = RestCatalog("lake", uri=f"{server.url}/iceberg", warehouse="lake")
    catalog.create_namespace((odd,))
    catalog.create_namespace((odd, odd))
    table = catalog.create_table((odd, odd, odd), SCHEMA)
    table.append(rows(1, 2))
    assert catalog.list_tables((odd, odd)) == [(odd, odd, odd)]
    renamed = catalog.rename_table((odd, odd, odd), (odd, odd))
    assert renamed.scan().to_arrow().num_rows == 2
    catalog.drop_table((odd, odd))
    catalog.drop_namespace((odd, odd))
    catalog.drop_namespace((odd,))
