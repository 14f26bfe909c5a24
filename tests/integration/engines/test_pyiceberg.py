"""What PyIceberg's own page says it can do, done with a Firn catalog."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    RESTError,
    TableAlreadyExistsError,
    ValidationError,
    ViewAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable, Table
from pyiceberg.table.sorting import NullOrder, SortField, SortOrder
from pyiceberg.table.statistics import BlobMetadata, StatisticsFile
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import (
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)
from pyiceberg.view.metadata import SQLViewRepresentation, ViewRepresentation, ViewVersion

from tests.spark_fixtures import ServerProcess

_numbers = count(1)
CITIES = [
    {"city": "Amsterdam", "lat": 52.37},
    {"city": "Drachten", "lat": 53.11},
    {"city": "Paris", "lat": 48.86},
]
ARROW = pa.schema([pa.field("city", pa.string()), pa.field("lat", pa.float64())])


@pytest.fixture
def catalog(server: ServerProcess) -> Catalog:
    return load_catalog("lake", type="rest", uri=f"{server.url}/iceberg", warehouse="lake")


@pytest.fixture
def space(catalog: Catalog) -> str:
    """A namespace of the test's own."""
    name = f"py{next(_numbers)}"
    catalog.create_namespace(name)
    return name


@pytest.fixture
def cities(catalog: Catalog, space: str) -> Table:
    """Three rows of one commit."""
    table = catalog.create_table((space, "cities"), schema=ARROW)
    table.append(rows(*CITIES))
    return table


def rows(*row_values: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(row_values), schema=ARROW)


def names(table: Table, **scan: object) -> list[str]:
    names: list[str] = sorted(table.scan(**scan).to_arrow()["city"].to_pylist())  # type: ignore[arg-type]
    return names


def test_namespaces_nest_have_properties_and_go_when_they_are_empty(catalog: Catalog, space: str) -> None:
    catalog.create_namespace((space, "inner"), {"owner": "ada", "gone": "1"})
    catalog.create_namespace_if_not_exists((space, "inner"))
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace((space, "inner"))
    with pytest.raises(RESTError, match="NoSuchNamespaceException: Namespace does not exist: missing"):
        catalog.create_namespace(("missing", "inner"))
    summary = catalog.update_namespace_properties((space, "inner"), {"gone", "never"}, {"owner": "bob"})
    assert (summary.removed, summary.updated, summary.missing) == (["gone"], ["owner"], ["never"])
    assert catalog.load_namespace_properties((space, "inner"))["owner"] == "bob"
    assert catalog.list_namespaces(space) == [(space, "inner")]
    assert (space,) in catalog.list_namespaces()
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(space)
    catalog.drop_namespace((space, "inner"))
    assert not catalog.namespace_exists((space, "inner"))


def test_a_table_is_created_with_spec_order_and_nested_fields(catalog: Catalog, space: str) -> None:
    schema = Schema(
        NestedField(1, "at", TimestampType(), required=True),
        NestedField(2, "symbol", StringType(), required=True),
        NestedField(3, "bid", DoubleType()),
        NestedField(5, "details", StructType(NestedField(4, "created_by", StringType()))),
        identifier_field_ids=[2],
    )
    table = catalog.create_table(
        (space, "bids"),
        schema=schema,
        partition_spec=PartitionSpec(PartitionField(1, 1000, DayTransform(), "at_day")),
        sort_order=SortOrder(SortField(source_id=2, transform=IdentityTransform())),
        properties={"owner": "ada"},
    )
    again = catalog.load_table(f"{space}.bids")
    assert again.metadata == table.metadata
    assert [field.name for field in again.spec().fields] == ["at_day"]
    assert again.sort_order().fields[0].source_id == again.schema().find_field("symbol").field_id
    assert again.schema().identifier_field_names() == {"symbol"}
    assert catalog.create_table_if_not_exists((space, "bids"), schema).metadata == table.metadata
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table((space, "bids"), schema)
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table(("missing", "bids"), schema)


def test_a_staged_table_is_there_once_its_transaction_ends(catalog: Catalog, space: str) -> None:
    with catalog.create_table_transaction((space, "cities"), schema=ARROW) as change:
        with change.update_schema() as schema:
            schema.add_column("note", StringType())
        with change.update_spec() as spec:
            spec.add_identity("city")
        change.set_properties(a="1", b="2")
        change.append(pa.Table.from_pylist([{**CITIES[0], "note": "n"}]))
        assert not catalog.table_exists((space, "cities"))
    table = catalog.load_table((space, "cities"))
    assert names(table) == ["Amsterdam"]
    assert [field.name for field in table.spec().fields] == ["city"]
    assert {"a": "1", "b": "2"}.items() <= table.properties.items()
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table_transaction((space, "cities"), schema=ARROW)
    first, second = (catalog.create_table_transaction((space, "twice"), schema=ARROW) for _ in range(2))
    first.append(rows(CITIES[0]))
    first.commit_transaction()
    with pytest.raises(CommitFailedException):
        second.commit_transaction()
    assert names(catalog.load_table((space, "twice"))) == ["Amsterdam"]


def test_rows_are_appended_overwritten_deleted_and_upserted(catalog: Catalog, cities: Table) -> None:
    cities.append(rows({"city": "Groningen", "lat": 53.2}), snapshot_properties={"by": "ada"})
    current = cities.current_snapshot()
    assert current is not None
    assert current.summary is not None
    assert current.summary.additional_properties["by"] == "ada"
    cities.delete("city == 'Paris'")
    cities.overwrite(rows({"city": "New York", "lat": 40.7}), overwrite_filter="city == 'Drachten'")
    assert names(cities) == ["Amsterdam", "Groningen", "New York"]
    done = cities.upsert(rows({"city": "Groningen", "lat": 1.0}, {"city": "Oslo", "lat": 59.9}), join_cols=["city"])
    assert (done.rows_updated, done.rows_inserted) == (1, 1)
    assert names(cities, row_filter="lat < 2") == ["Groningen"]
    cities.overwrite(rows({"city": "Rome", "lat": 41.9}))
    assert names(catalog.load_table(cities.name())) == ["Rome"]


def test_partitions_are_overwritten_by_what_is_in_the_rows(catalog: Catalog, space: str) -> None:
    schema = Schema(NestedField(1, "city", StringType()), NestedField(2, "lat", DoubleType()))
    spec = PartitionSpec(PartitionField(1, 1001, IdentityTransform(), "city_identity"))
    table = catalog.create_table((space, "cities"), schema, partition_spec=spec)
    table.append(rows(*CITIES))
    table.dynamic_partition_overwrite(rows({"city": "Paris", "lat": -1.0}))
    assert names(table) == ["Amsterdam", "Drachten", "Paris"]
    assert names(table, row_filter="lat < 0") == ["Paris"]
    assert table.inspect.partitions().num_rows == 3


def test_one_transaction_changes_schema_rows_and_properties_together(catalog: Catalog, cities: Table) -> None:
    before = len(cities.metadata.metadata_log)
    with cities.transaction() as change:
        with change.update_schema() as schema:
            schema.add_column("note", StringType())
        change.append(pa.Table.from_pylist([{**CITIES[0], "city": "Oslo", "note": "n"}]))
        change.set_properties(a="1")
    table = catalog.load_table(cities.name())
    assert len(table.metadata.metadata_log) == before + 1
    assert names(table, row_filter="note == 'n'") == ["Oslo"]


def test_schemas_evolve(catalog: Catalog, space: str) -> None:
    place = StructType(NestedField(4, "lat", DoubleType()))
    schema = Schema(
        NestedField(1, "id", IntegerType(), required=True),
        NestedField(2, "data", StringType()),
        NestedField(3, "place", place),
    )
    table = catalog.create_table((space, "t"), schema, properties={"format-version": "3"})
    with table.update_schema() as change:
        change.add_column("retries", IntegerType(), "Number of retries").add_column(("place", "lon"), DoubleType())
        change.rename_column("data", "payload").update_column("id", field_type=LongType(), doc="wider")
        change.set_identifier_fields("id")
    with table.update_schema() as change:
        change.move_first("retries").move_after("payload", "retries")
    with table.update_schema() as change:
        change.union_by_name(pa.schema([pa.field("union", pa.int32())]))
    with table.update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("retries").add_column("must", StringType(), required=True, default_value="x")
    loaded = catalog.load_table((space, "t")).schema()
    assert sorted(loaded.column_names) == sorted(["payload", "id", "place.lat", "place.lon", "place", "union", "must"])
    assert loaded.find_field("id").field_type == LongType()
    assert loaded.identifier_field_names() == {"id"}
    assert len(table.schemas()) == 5


def test_partitions_and_sort_orders_evolve(catalog: Catalog, cities: Table) -> None:
    with cities.update_spec() as spec:
        spec.add_field("city", TruncateTransform(2), "short").add_field("lat", IdentityTransform(), "by_lat")
        spec.add_field("city", BucketTransform(4), "shard")
    with cities.update_spec() as spec:
        spec.remove_field("short").remove_field("shard").rename_field("by_lat", "latitude")
    with cities.update_sort_order() as order:
        order.asc("city", IdentityTransform()).desc("lat", IdentityTransform(), NullOrder.NULLS_FIRST)
    cities.append(rows({"city": "Oslo", "lat": 59.9}))
    table = catalog.load_table(cities.name())
    assert [field.name for field in table.spec().fields] == ["latitude"]
    assert [str(field.direction) for field in table.sort_order().fields] == ["ASC", "DESC"]
    assert len(table.specs()) == 3
    assert names(table) == ["Amsterdam", "Drachten", "Oslo", "Paris"]


def test_properties_are_set_and_removed_and_the_format_is_upgraded(catalog: Catalog, space: str) -> None:
    table = catalog.create_table((space, "t"), ARROW, properties={"format-version": "1"})
    with table.transaction() as change:
        change.set_properties({"abc": "def", "ghi": "jkl"})
    with table.transaction() as change:
        change.remove_properties("abc").upgrade_table_version(2)
    loaded_table = catalog.load_table((space, "t"))
    assert loaded_table.format_version == 2
    assert "abc" not in loaded_table.properties
    assert loaded_table.properties["ghi"] == "jkl"


def test_snapshots_are_tagged_branched_rolled_back_and_expired(catalog: Catalog, cities: Table) -> None:
    first = cities.metadata.current_snapshot_id
    assert first is not None
    cities.append(rows({"city": "Oslo", "lat": 59.9}))
    second = cities.metadata.current_snapshot_id
    assert second is not None
    cities.manage_snapshots().create_tag(first, "beginning").create_branch(first, "audit").commit()
    cities.append(rows({"city": "Rome", "lat": 41.9}), branch="audit")
    assert cities.scan().use_ref("audit").count() == 4
    assert names(cities) == ["Amsterdam", "Drachten", "Oslo", "Paris"]
    cities.manage_snapshots().rollback_to_snapshot(first).commit()
    assert names(cities, snapshot_id=second) == ["Amsterdam", "Drachten", "Oslo", "Paris"]
    assert names(cities) == ["Amsterdam", "Drachten", "Paris"]
    cities.manage_snapshots().set_current_snapshot(ref_name="audit").commit()
    assert names(cities) == ["Amsterdam", "Drachten", "Paris", "Rome"]
    cities.manage_snapshots().remove_branch("audit").commit()
    cities.maintenance.expire_snapshots().older_than(
        datetime.now(UTC).replace(tzinfo=None) + timedelta(days=1)
    ).commit()
    table = catalog.load_table(cities.name())
    assert table.refs().keys() == {"main", "beginning"}
    assert table.snapshot_by_id(second) is None
    assert table.snapshot_by_id(first) is not None
    with pytest.raises((ValueError, ValidationError)):
        cities.maintenance.expire_snapshots().by_id(first).commit()


def test_tables_are_inspected(cities: Table) -> None:
    cities.append(rows({"city": "Oslo", "lat": 59.9}))
    look = cities.inspect
    assert look.snapshots().num_rows == look.history().num_rows == 2
    assert look.entries()["status"].to_pylist() == [1, 1]
    assert look.refs()["name"].to_pylist() == ["main"]
    assert look.manifests().num_rows == 2
    assert look.metadata_log_entries().num_rows == 3
    assert look.files().num_rows == look.data_files().num_rows == look.all_files().num_rows == 2
    assert look.delete_files().num_rows == 0
    assert look.all_manifests().num_rows == 3


def test_what_was_appended_between_two_snapshots_is_read_alone(cities: Table) -> None:
    first = cities.metadata.current_snapshot_id
    cities.append(rows({"city": "Oslo", "lat": 59.9}))
    rows_added = cities.incremental_append_scan(from_snapshot_id_exclusive=first).to_arrow()
    assert rows_added["city"].to_pylist() == ["Oslo"]


def test_files_are_added_as_they_lie(cities: Table, tmp_path: Path) -> None:
    path = f"{tmp_path}/more.parquet"
    pq.write_table(rows({"city": "Oslo", "lat": 59.9}), path)
    cities.add_files([path])
    assert names(cities) == ["Amsterdam", "Drachten", "Oslo", "Paris"]
    with pytest.raises(ValueError, match="already referenced"):
        cities.add_files([path])


def test_statistics_files_are_kept_and_removed(catalog: Catalog, cities: Table) -> None:
    snapshot = cities.metadata.current_snapshot_id
    assert snapshot is not None
    blob = BlobMetadata(type="apache-datasketches-theta-v1", snapshot_id=snapshot, sequence_number=1, fields=[1])
    statistics = StatisticsFile(
        snapshot_id=snapshot,
        statistics_path=f"{cities.location()}/metadata/stats.puffin",
        file_size_in_bytes=4,
        file_footer_size_in_bytes=4,
        blob_metadata=[blob],
    )
    with cities.update_statistics() as change:
        change.set_statistics(statistics)
    assert catalog.load_table(cities.name()).metadata.statistics == [statistics]
    with cities.update_statistics() as change:
        change.remove_statistics(snapshot)
    assert catalog.load_table(cities.name()).metadata.statistics == []


def test_tables_are_renamed_registered_dropped_and_purged(catalog: Catalog, space: str, cities: Table) -> None:
    catalog.create_namespace((space, "other"))
    catalog.rename_table(cities.name(), (space, "other", "moved"))
    assert catalog.list_tables(space) == []
    moved = catalog.load_table((space, "other", "moved"))
    assert names(moved) == ["Amsterdam", "Drachten", "Paris"]
    assert names(StaticTable.from_metadata(moved.metadata_location)) == names(moved)
    catalog.drop_table(moved.name())
    with pytest.raises(NoSuchTableError):
        catalog.drop_table(moved.name())
    back = catalog.register_table((space, "back"), moved.metadata_location)
    back.append(rows({"city": "Oslo", "lat": 59.9}))
    assert len(names(back)) == 4
    with pytest.raises(TableAlreadyExistsError):
        catalog.register_table((space, "back"), moved.metadata_location)
    catalog.register_table((space, "back"), moved.metadata_location, overwrite=True)
    assert len(names(catalog.load_table((space, "back")))) == 3
    catalog.purge_table((space, "back"))
    assert not catalog.table_exists((space, "back"))
    assert Path(urlsplit(moved.metadata_location).path).exists()


def test_views_are_created_loaded_registered_and_dropped(catalog: Catalog, space: str, cities: Table) -> None:
    query = SQLViewRepresentation(type="sql", sql="SELECT city FROM cities", dialect="spark")
    version = ViewVersion(
        schema_id=0, representations=[ViewRepresentation(query)], default_namespace=(space,), summary={"a": "b"}
    )
    schema = Schema(NestedField(1, "city", StringType()))
    view = catalog.create_view((space, "v"), schema, version, properties={"p": "q"})
    again = catalog.load_view((space, "v"))
    assert again.metadata == view.metadata
    assert again.sql_for("spark") == query
    assert catalog.list_views(space) == [(space, "v")]
    assert catalog.view_exists((space, "v"))
    with pytest.raises(ViewAlreadyExistsError):
        catalog.create_view((space, "v"), schema, version)
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table((space, "v"), schema)
    catalog.drop_view((space, "v"))
    with pytest.raises(NoSuchViewError):
        catalog.load_view((space, "v"))
    assert names(cities) == ["Amsterdam", "Drachten", "Paris"]


def test_names_with_dots_spaces_and_slashes_are_names(catalog: Catalog, space: str) -> None:
    odd = (space, "a.b/c d", "tä.b/l e")
    catalog.create_namespace(odd[:2])
    catalog.create_table(odd, ARROW).append(rows(*CITIES))
    assert catalog.list_tables(odd[:2]) == [odd]
    assert len(names(catalog.load_table(odd))) == 3
