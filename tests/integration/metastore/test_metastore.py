"""One behaviour suite; it runs on the fake and, over a real socket, on a real Hive Metastore."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import GetTableRequest, PrincipalType, Table

from catalog.errors import CommitUnknown, Conflict, Invalid, NotFound
from catalog.hive.formats import HiveFormat
from catalog.hive.model import HivePartition
from catalog.hive.notification_log import NotificationBatch
from catalog.ports.metastore import PartitionLocation
from firn.embedded.metastore import EmbeddedMetastore, MetastoreSession
from tests.hive_tables import a_hive_partition, a_hive_table, a_storage
from tests.hive_tables import columns as columns_of
from tests.integration.metastore.world import World
from tests.server.metastore.fake import FakeMetastore
from tests.server.metastore.hive_side import HiveSide


@pytest.fixture(params=["fake", *(pytest.param(name, marks=pytest.mark.hive) for name in ("hive3", "hive4"))])
def later_world(request: pytest.FixtureRequest) -> World:
    """One in which such tables can be made."""
    world: World = request.getfixturevalue(f"{request.param}_world")
    return world


@pytest.fixture(params=["fake", pytest.param("hive3", marks=pytest.mark.hive)])
def log_world(request: pytest.FixtureRequest) -> World:
    """One whose metastore keeps a log of changes."""
    world: World = request.getfixturevalue(f"{request.param}_world")
    if isinstance(world.hive, FakeMetastore):
        world.hive.log = []
    return world


@pytest.fixture(params=["fake", *(pytest.param(name, marks=pytest.mark.hive) for name in ("hive", "hive4"))])
def logless_world(request: pytest.FixtureRequest) -> World:
    world: World = request.getfixturevalue(f"{request.param}_world")
    return world


def test_databases_and_tables_are_listed(world: World) -> None:
    world.hive.add_table(a_hive_table(world.db, "b", storage=a_storage(world.at("b"))))
    world.hive.add_table(a_hive_table(world.db, "a", storage=a_storage(world.at("a"))))
    assert {world.db, "default"} <= set(world.metastore.databases())
    assert world.metastore.tables(world.db) == ["a", "b"]
    assert world.metastore.health()


def test_a_table_comes_back_as_it_was_made(world: World) -> None:
    hive_table = a_hive_table(
        world.db,
        storage=a_storage(world.at("orders"), "id int; tags array<struct<k:string,v:decimal(10,2)>>"),
        partitioned_by="day date; city string",
        parameters={"EXTERNAL": "TRUE", "transient_lastDdlTime": "1700000000", "note": "snow ❄"},
    )
    world.hive.add_table(hive_table)
    table = world.metastore.table(world.db, "orders")
    assert (table.full_name, table.type, table.owner) == (hive_table.full_name, hive_table.type, hive_table.owner)
    assert table.storage == hive_table.storage
    assert table.storage.format is HiveFormat.PARQUET
    assert table.partition_columns == hive_table.partition_columns
    assert table.parameters["note"] == "snow ❄"
    assert table.ddl_time is not None


def test_a_declared_primary_key_has_its_columns_in_their_order(world: World) -> None:
    for name in ("plain", "keyed"):
        world.hive.add_table(a_hive_table(world.db, name, storage=a_storage(world.at(name), "a int; b int; c int")))
    world.hive.declare_primary_key(world.db, "keyed", ["c", "a"])
    assert world.metastore.primary_key(world.db, "keyed") == ["c", "a"]
    assert world.metastore.primary_key(world.db, "plain") == []


def test_what_is_missing_is_not_found(world: World) -> None:
    with pytest.raises(NotFound):
        world.metastore.table(world.db, "nothing")
    with pytest.raises(NotFound):
        world.metastore.table("nowhere", "nothing")
    with pytest.raises(NotFound):
        world.metastore.tables("nowhere")
    with pytest.raises(NotFound):
        world.metastore.tables_detail("nowhere", ["a"])
    with pytest.raises(NotFound):
        world.metastore.set_table_parameters(world.db, "nothing", {"a": "b"})


def test_the_partitions_of_a_missing_table_are_not_an_empty_list(world: World) -> None:
    """Sync would take an empty list for: everything was dropped."""
    with pytest.raises(NotFound):
        world.metastore.partition_names(world.db, "nothing")


def test_details_leave_out_what_is_gone(world: World) -> None:
    for name in ("a", "b"):
        world.hive.add_table(a_hive_table(world.db, name, storage=a_storage(world.at(name))))
    world.hive.drop_table(world.db, "a")
    assert [table.name for table in world.metastore.tables_detail(world.db, ["a", "b", "c"])] == ["b"]
    assert world.metastore.tables_detail(world.db, []) == []


def test_a_table_that_is_only_inserted_into_hides_no_others(later_world: World) -> None:
    """Clients that do not say that they know such tables are refused all that they name in one call."""
    world = later_world
    insert_only = {"transactional": "true", "transactional_properties": "insert_only"}
    for name, parameters in (("a", insert_only), ("b", {})):
        world.hive.add_table(a_hive_table(world.db, name, storage=a_storage(world.at(name)), parameters=parameters))
    tables = {table.name: table for table in world.metastore.tables_detail(world.db, ["a", "b"])}
    assert tables.keys() == {"a", "b"}
    assert tables["a"].parameters["transactional"] == "true"
    assert world.metastore.table(world.db, "a") == tables["a"]


def test_partitions_have_the_values_that_were_given(world: World) -> None:
    world.hive.add_table(
        a_hive_table(world.db, storage=a_storage(world.at("o")), partitioned_by="day date; city string")
    )
    null = "__HIVE_DEFAULT_PARTITION__"
    for i, values in enumerate([("2024-01-05", "São Paulo/x=1"), ("2024-01-06", null)]):
        world.hive.add_partition(
            world.db,
            "orders",
            a_hive_partition(*values, storage=a_storage(world.at(f"o/{i}")), parameters={"numFiles": "3"}),
        )
    names = world.metastore.partition_names(world.db, "orders")
    assert names == ["day=2024-01-05/city=São Paulo%2Fx%3D1", f"day=2024-01-06/city={null}"]
    first, second = sorted(world.metastore.partitions(world.db, "orders", names), key=lambda p: p.values)
    assert first.values == ("2024-01-05", "São Paulo/x=1")
    assert first.storage.location == world.at("o/0")
    assert second.values == ("2024-01-06", null)


def test_partitions_leave_out_what_is_gone(world: World) -> None:
    world.hive.add_table(a_hive_table(world.db, storage=a_storage(world.at("o")), partitioned_by="day string"))
    for day in ("1", "2"):
        world.hive.add_partition(world.db, "orders", a_hive_partition(day, storage=a_storage(world.at(f"o/{day}"))))
    names = world.metastore.partition_names(world.db, "orders")
    world.hive.drop_partition(world.db, "orders", "day=1")
    assert [p.values for p in world.metastore.partitions(world.db, "orders", names)] == [("2",)]
    assert world.metastore.partitions(world.db, "orders", []) == []


def test_the_named_partitions_of_a_missing_table_are_not_just_gone(world: World) -> None:
    with pytest.raises(NotFound):
        world.metastore.partitions(world.db, "nothing", ["day=1"])


def test_a_table_without_partitions_has_no_names(world: World) -> None:
    world.hive.add_table(a_hive_table(world.db, storage=a_storage(world.at("o"))))
    assert world.metastore.partition_names(world.db, "orders") == []


def test_setting_parameters_leaves_everything_else_alone(world: World) -> None:
    parameters = {"EXTERNAL": "TRUE", "transient_lastDdlTime": "1700000000", "old": "1", "kept": "2"}
    world.hive.add_table(a_hive_table(world.db, storage=a_storage(world.at("o")), parameters=parameters))
    before = world.metastore.table(world.db, "orders")
    world.metastore.set_table_parameters(world.db, "orders", {"firn.table": "lake"}, remove=["old", "absent"])
    after = world.hive.table(world.db, "orders")
    expected = {key: value for key, value in before.parameters.items() if key != "old"} | {"firn.table": "lake"}
    assert after.parameters == expected
    assert after.storage == before.storage
    assert after.ddl_time == before.ddl_time


@pytest.mark.hive
def test_a_partition_is_moved_and_nothing_else_of_it_changes(world: World) -> None:
    table = a_hive_table(world.db, storage=a_storage(world.at("o"), "id int"), partitioned_by="day string; city string")
    world.hive.add_table(table)
    parameters = {"numFiles": "3", "COLUMN_STATS_ACCURATE": "{}", "note": "kept", "transient_lastDdlTime": "1700000000"}
    world.hive.add_partition(
        world.db,
        "orders",
        a_hive_partition("1", "a/b", storage=a_storage(world.at("o/1"), "id int"), parameters=parameters),
    )
    [before] = world.metastore.partitions(world.db, "orders", ["day=1/city=a%2Fb"])
    place = PartitionLocation(values=("1", "a/b"), location=world.at("o/1"))
    changes = {"numFiles": "1", "totalSize": "9", "COLUMN_STATS_ACCURATE": None}
    world.hive.add_table(replace(table, storage=a_storage(world.at("o"), "id int; later string")))
    signals = world.metastore.move(world.db, "orders", place, world.at("new/1"), changes, columns_of_table=True)
    [after] = world.hive.partitions(world.db, "orders", ["day=1/city=a%2Fb"])
    assert (after.storage.location, after.statistics) == (world.at("new/1"), ("1", "9"))
    columns = world.metastore.table(world.db, "orders").columns
    assert [column.name for column in columns] == ["id", "later"]
    assert after.storage == replace(before.storage, location=world.at("new/1"), columns=columns)
    assert after.parameters["note"] == "kept"
    assert "COLUMN_STATS_ACCURATE" not in after.parameters
    assert (after.ddl_time, signals.ddl_time) == (before.ddl_time, before.ddl_time)
    assert (signals.location, signals.statistics) == (world.at("new/1"), ("1", "9"))


def test_a_partition_is_moved_only_from_where_it_was_expected(world: World) -> None:
    world.hive.add_table(a_hive_table(world.db, storage=a_storage(world.at("o")), partitioned_by="day string"))
    world.hive.add_partition(world.db, "orders", a_hive_partition("1", storage=a_storage(world.at("o/1"))))
    for place in (
        PartitionLocation(values=("1",), location=world.at("elsewhere")),
        PartitionLocation(values=("1",), location=None),
        PartitionLocation(values=("2",), location=world.at("o/2")),
    ):
        with pytest.raises(Conflict):
            world.metastore.move(world.db, "orders", place, world.at("new"), {})
    [there] = world.metastore.partitions(world.db, "orders", ["day=1"])
    assert there.storage.location == world.at("o/1")
    with pytest.raises(NotFound):
        world.metastore.move(
            world.db, "nothing", PartitionLocation(values=(), location=world.at("o")), world.at("new"), {}
        )


def test_a_partition_is_made_where_there_was_none(world: World) -> None:
    null = "__HIVE_DEFAULT_PARTITION__"
    storage = a_storage(world.at("o"), "id int; v string")
    world.hive.add_table(a_hive_table(world.db, storage=storage, partitioned_by="day string"))
    world.metastore.move(
        world.db, "orders", PartitionLocation(values=(null,), location=None), world.at("n"), {"numFiles": "2"}
    )
    [partition] = world.hive.partitions(world.db, "orders", [f"day={null}"])
    assert (partition.values, partition.storage.location) == ((null,), world.at("n"))
    assert (partition.storage.format, partition.storage.columns) == (HiveFormat.PARQUET, storage.columns)
    assert partition.parameters["numFiles"] == "2"


@pytest.mark.parametrize("provider", [None, "parquet"])
def test_a_table_without_partitions_is_moved(world: World, provider: str | None) -> None:
    storage = a_storage(world.at("o"))
    parameters = {}
    if provider:
        storage = replace(storage, serde_parameters={"path": world.at("o")})
        parameters = {"spark.sql.sources.provider": provider}
    table = a_hive_table(world.db, storage=storage, parameters={"EXTERNAL": "TRUE", **parameters})
    world.hive.add_table(replace(table, type="EXTERNAL_TABLE"))
    before = world.metastore.table(world.db, "orders")
    signals = world.metastore.move(
        world.db, "orders", PartitionLocation(values=(), location=world.at("o")), world.at("n"), {"totalSize": "7"}
    )
    after = world.hive.table(world.db, "orders")
    assert (signals.location, after.location, after.storage.location) == (world.at("n"),) * 3
    assert (after.columns, after.type, after.ddl_time) == (before.columns, before.type, before.ddl_time)
    assert after.parameters["totalSize"] == "7"


@pytest.mark.hive
def test_hive_4_points_no_managed_table_out_of_its_warehouse(hive4_world: World) -> None:
    """In words that other versions use when they fail inside: it may have been moved, for all that is known then."""
    db, at = hive4_world.db, hive4_world.at
    hive4_world.hive.add_table(a_hive_table(db, storage=a_storage(at("o")), parameters={}))
    with pytest.raises(CommitUnknown, match="managed"):
        hive4_world.metastore.move(db, "orders", PartitionLocation(values=(), location=at("o")), at("n"), {})
    assert hive4_world.metastore.table(db, "orders").location == at("o")


@pytest.fixture
def hive4_client(hive4_process: EmbeddedMetastore) -> Iterator[Client]:
    """The client that Hive 4's own definitions give."""
    with MetastoreSession(hive4_process.port) as client:
        yield client


@pytest.mark.hive
def test_a_role_keeps_what_it_owns(hive4_world: World, hive4_client: Client) -> None:
    _give_to_role(hive4_world, hive4_client)
    hive4_world.metastore.set_table_parameters(hive4_world.db, "orders", {"a": "b"})
    table = _table_of_hive_4(hive4_world, hive4_client)
    assert (table.owner, table.ownerType, table.parameters["a"]) == ("analysts", PrincipalType.ROLE, "b")


@pytest.mark.hive
def test_a_client_of_hive_2_makes_a_role_a_user_when_it_writes_a_table_back(
    hive4_world: World, hive4_client: Client
) -> None:
    """Why Firn itself does not use such a client."""
    _give_to_role(hive4_world, hive4_client)
    assert isinstance(hive4_world.hive, HiveSide)
    read = hive4_world.hive.read_table(hive4_world.db, "orders")
    hive4_world.hive.client.alter_table(hive4_world.db, "orders", read)
    table = _table_of_hive_4(hive4_world, hive4_client)
    assert (table.owner, table.ownerType) == ("analysts", PrincipalType.USER)


def _give_to_role(world: World, client: Client) -> None:
    world.hive.add_table(a_hive_table(world.db, storage=a_storage(world.at("o"))))
    table = _table_of_hive_4(world, client)
    table.owner, table.ownerType = "analysts", PrincipalType.ROLE
    client.alter_table(world.db, "orders", table)


def _table_of_hive_4(world: World, client: Client) -> Table:
    return client.get_table_req(GetTableRequest(dbName=world.db, tblName="orders")).table


@pytest.mark.parametrize("cascade", [True, False])
def test_columns_are_altered_and_nothing_else_is(world: World, *, cascade: bool) -> None:
    parameters = {"EXTERNAL": "TRUE", "transient_lastDdlTime": "1700000000", "numFiles": "7"}
    table = a_hive_table(world.db, storage=a_storage(world.at("o")), partitioned_by="day string", parameters=parameters)
    world.hive.add_table(table)
    statistics = {"numFiles": "3", "totalSize": "9", "transient_lastDdlTime": "1700000000"}
    storage = a_storage(world.at("o/1"))
    world.hive.add_partition(world.db, "orders", a_hive_partition("1", storage=storage, parameters=statistics))
    before, [partition] = world.metastore.table(world.db, "orders"), _partitions(world)
    columns = (
        *(replace(column, comment="said") for column in columns_of("id int; name string")),
        *columns_of("later double"),
    )
    world.metastore.alter_columns(world.db, "orders", columns, expected=before.columns, cascade=cascade)
    after, [now] = world.hive.table(world.db, "orders"), world.hive.partitions(world.db, "orders", ["day=1"])
    assert after == replace(before, storage=replace(before.storage, columns=columns))
    kept = replace(partition, storage=replace(partition.storage, columns=columns)) if cascade else partition
    assert now == kept


def _partitions(world: World) -> list[HivePartition]:
    return world.metastore.partitions(world.db, "orders", ["day=1"])


def test_columns_that_somebody_else_has_altered_meanwhile_stay(world: World) -> None:
    world.hive.add_table(a_hive_table(world.db, storage=a_storage(world.at("o"))))
    there = world.metastore.table(world.db, "orders").columns
    with pytest.raises(Conflict):
        world.metastore.alter_columns(world.db, "orders", there, expected=there[:1], cascade=False)
    assert world.metastore.table(world.db, "orders").columns == there
    with pytest.raises(NotFound):
        world.metastore.alter_columns(world.db, "nothing", there, expected=there, cascade=False)


def test_a_type_that_the_metastore_takes_for_incompatible_is_refused(hive_world: World) -> None:
    hive_world.hive.add_table(a_hive_table(hive_world.db, storage=a_storage(hive_world.at("o"), "id int; s string")))
    there = hive_world.metastore.table(hive_world.db, "orders").columns
    with pytest.raises(Invalid, match="incompatible"):
        hive_world.metastore.alter_columns(
            hive_world.db, "orders", columns_of("id int; s int"), expected=there, cascade=False
        )
    assert hive_world.metastore.table(hive_world.db, "orders").columns == there


def test_more_partitions_than_are_asked_for_in_one_call(hive_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are made side by side; names have no limit because none is sent."""
    monkeypatch.setattr("server.metastore.client._PARTITIONS_PER_CALL", 50)
    count = 4 * 50 + 5
    table = a_hive_table(hive_world.db, storage=a_storage(hive_world.at("o")), partitioned_by="n int")
    hive_world.hive.add_table(table)
    assert isinstance(hive_world.hive, HiveSide)
    hive_world.hive.add_partitions(
        hive_world.db,
        "orders",
        [a_hive_partition(str(n), storage=a_storage(hive_world.at(f"o/{n}"))) for n in range(count)],
    )
    names = hive_world.metastore.partition_names(hive_world.db, "orders")
    assert len(names) == count
    partitions = hive_world.metastore.partitions(hive_world.db, "orders", names)
    assert sorted(int(p.values[0]) for p in partitions) == [*range(count)]


def test_what_others_change_is_in_the_log(log_world: World) -> None:
    world = log_world
    world.hive.add_table(a_hive_table(world.db, storage=a_storage(world.at("o")), partitioned_by="day string"))
    before = world.metastore.notices(None)
    assert before is not None
    assert before.notifications == ()
    world.hive.add_partition(world.db, "orders", a_hive_partition("1", storage=a_storage(world.at("o/1"))))
    world.metastore.set_table_parameters(world.db, "orders", {"a": "b"})
    world.hive.add_table(a_hive_table(world.db, "other", storage=a_storage(world.at("other"))))
    world.hive.drop_table(world.db, "other")
    after = world.metastore.notices(before.upto)
    assert after is not None
    assert [(notification.kind, notification.full_name) for notification in after.notifications] == [
        ("ADD_PARTITION", f"{world.db}.orders"),
        ("ALTER_TABLE", f"{world.db}.orders"),
        ("CREATE_TABLE", f"{world.db}.other"),
        ("DROP_TABLE", f"{world.db}.other"),
    ]
    assert world.metastore.notices(after.upto) == NotificationBatch(upto=after.upto)
    assert world.metastore.notices(after.upto + 1000) == NotificationBatch(upto=after.upto)


def test_a_metastore_that_keeps_no_log_says_so(logless_world: World) -> None:
    logless_world.hive.add_table(a_hive_table(logless_world.db, storage=a_storage(logless_world.at("o"))))
    assert logless_world.metastore.notices(None) is None
    assert logless_world.metastore.notices(0) is None
