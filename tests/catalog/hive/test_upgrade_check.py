from __future__ import annotations

import re
from dataclasses import replace

import pytest

from catalog.hive.model import PROVIDER, HiveTable
from catalog.hive.partition_names import NULL_NAME
from catalog.hive.upgrade_check import (
    UpgradeBlockerCode,
    find_blocked_partitions,
    find_blockers,
    find_key_blockers,
    find_upgrade_notes,
)
from tests.hive_tables import AVRO, ORC, TEXT, a_hive_partition, a_hive_table, a_storage


def codes(table: HiveTable, *partitions: object) -> list[str]:
    return [blocker.code for blocker in find_blockers(table, partitions)]  # type: ignore[arg-type]


def test_a_parquet_table_has_nothing_in_its_way() -> None:
    assert find_blockers(a_hive_table(), []) == []
    table = a_hive_table(partitioned_by="day date; n int")
    assert find_blockers(table, [a_hive_partition("2024-01-05", "1"), a_hive_partition("2024-01-05", NULL_NAME)]) == []


@pytest.mark.parametrize(
    ("table", "code", "message"),
    [
        (a_hive_table(type="VIRTUAL_VIEW"), "view", "db.orders is a view"),
        (a_hive_table(type="MATERIALIZED_VIEW"), "view", "is a view"),
        (a_hive_table(parameters={"table_type": "ICEBERG"}), "iceberg", "Iceberg table already"),
        (a_hive_table(parameters={"transactional": "TRUE"}), "transactional", "ACID"),
        (a_hive_table(parameters={"storage_handler": "x.HBase"}), "storage_handler", r"kept by x\.HBase"),
        (a_hive_table(storage=a_storage(serde=TEXT)), "format", "stored as TEXT"),
        (a_hive_table(storage=a_storage(serde=ORC, input_format="x.Own")), "format", "OrcSerde over x.Own"),
        (a_hive_table(parameters={PROVIDER: "csv"}, storage=a_storage(serde=ORC)), "spark_format", "'csv'"),
        (a_hive_table(parameters={PROVIDER: "avro"}, storage=a_storage(serde=TEXT)), "spark_format", "'avro'"),
        (a_hive_table(storage=a_storage(input_format="org.apache.hudi.HoodieParquetInputFormat")), "format", "Hoodie"),
        (a_hive_table(parameters={PROVIDER: "delta"}), "spark_format", "'delta'"),
        (
            a_hive_table(parameters={PROVIDER: "parquet"}, storage=a_storage(cols="col array<string>")),
            "spark_schema",
            "does not know them",
        ),
        (
            a_hive_table(parameters={PROVIDER: "parquet", "spark.sql.sources.schema.numPartCols": "1"}),
            "spark_partitions",
            "out of the metastore",
        ),
        (a_hive_table(storage=a_storage(bucket_columns=("id",), buckets=4)), "bucketed", "bucketed by id"),
        (a_hive_table(parameters={"spark.sql.sources.schema.numBuckets": "4"}), "bucketed", "is bucketed"),
        (a_hive_table(parameters={"parquet.column.index.access": "true"}), "by_position", "by position"),
        (
            a_hive_table(storage=a_storage(serde=ORC), parameters={"orc.force.positional.evolution": "TRUE"}),
            "by_position",
            "by position",
        ),
        (
            a_hive_table(storage=a_storage(serde=AVRO), parameters={"avro.schema.url": "hdfs:/s.avsc"}),
            "avro_schema",
            r"avro\.schema\.url",
        ),
        (
            a_hive_table(storage=a_storage(serde=AVRO, serde_parameters={"avro.schema.literal": "{}"})),
            "avro_schema",
            r"avro\.schema\.literal",
        ),
        (a_hive_table(storage=a_storage(cols="a int; u uniontype<int,string>")), "column_type", "column 'u'"),
        (a_hive_table(storage=a_storage(cols="a int; A string")), "duplicate_columns", "named a"),
        (a_hive_table(storage=a_storage(cols="a int; b int"), partitioned_by="B int"), "duplicate_columns", "named b"),
        (a_hive_table(partitioned_by="t timestamp"), "partition_type", "depends on the reader"),
    ],
)
def test_each_blocker_is_named_with_advice(table: HiveTable, code: str, message: str) -> None:
    (blocker,) = find_blockers(table, [])
    assert blocker.code == code
    assert re.search(message, blocker.message)
    assert blocker.advice.endswith(".")


def test_all_of_them_are_said_at_once() -> None:
    table = a_hive_table(
        storage=a_storage(serde=TEXT, cols="u uniontype<int,int>", bucket_columns=("u",), buckets=2),
        parameters={"transactional": "true"},
    )
    assert codes(table) == ["transactional", "format", "bucketed", "column_type"]


def test_partitions_are_looked_at_too() -> None:
    table = a_hive_table(partitioned_by="n int")
    partition, again = a_hive_partition("1"), a_hive_partition("01")
    text = a_hive_partition("2", storage=a_storage("file:/2", serde=TEXT))
    bad = a_hive_partition("x")
    shared = a_hive_partition("3", storage=partition.storage)
    messages = {
        blocker.code: blocker.message for blocker in find_blockers(table, [partition, again, text, bad, shared])
    }
    assert list(messages) == ["partition_format", "partition_value", "same_values", "shared_location"]
    assert "stored as text: n=2" in messages[UpgradeBlockerCode.PARTITION_FORMAT]
    assert "n=x" in messages[UpgradeBlockerCode.PARTITION_VALUE]
    assert "n=1, n=01" in messages[UpgradeBlockerCode.SAME_VALUES]
    assert "n=1, n=3 share the directory" in messages[UpgradeBlockerCode.SHARED_LOCATION]


def test_each_partition_may_have_a_format_of_its_own_that_iceberg_reads() -> None:
    table = a_hive_table(partitioned_by="n int")
    orc = a_hive_partition("2", storage=a_storage("file:/2", serde=ORC))
    avro = a_hive_partition("3", storage=a_storage("file:/3", serde=AVRO))
    assert find_blockers(table, [a_hive_partition("1"), orc, avro]) == []
    assert [table.format_of(partition.storage) for partition in (orc, avro)] == ["ORC", "AVRO"]
    own = replace(table, parameters={PROVIDER: "parquet"})
    assert own.format_of(orc.storage) == "PARQUET"  # as Spark reads it
    schema = a_storage("file:/4", serde=AVRO, serde_parameters={"avro.schema.url": "file:/s"})
    (blocker,) = find_blockers(table, [a_hive_partition("4", storage=schema)])
    assert blocker.code == UpgradeBlockerCode.AVRO_SCHEMA


@pytest.mark.parametrize("kind", ["timestamp", "array<struct<at:TIMESTAMP>>"])
def test_timestamps_of_orc_and_of_other_files_do_not_fit_one_column(kind: str) -> None:
    storage = a_storage(cols=f"id int; at {kind}")
    table = a_hive_table(storage=storage, partitioned_by="n int")
    orc = a_hive_partition("2", storage=a_storage("file:/2", serde=ORC))
    (blocker,) = find_blockers(table, [a_hive_partition("1"), orc])
    assert (blocker.code, blocker.advice) == ("timestamp_formats", "Write these partitions again as PARQUET.")
    assert "n=2" in blocker.message
    assert list(find_blocked_partitions(table, [a_hive_partition("1"), orc])) == ["n=2"]
    as_orc = replace(table, storage=replace(orc.storage, columns=storage.columns))
    assert list(find_blocked_partitions(as_orc, [a_hive_partition("1"), orc])) == ["n=1"]
    assert find_blockers(as_orc, [orc]) == []


def test_a_timestamp_in_orc_files_is_a_wall_clock_time() -> None:
    nested = "struct<timestamp:timestamp,`timestamp`:array<TIMESTAMP>>"
    cols = f"timestamp timestamp; s {nested}; l timestamp with local time zone"
    table = a_hive_table(storage=a_storage(cols=cols, serde=ORC))
    assert [column.type for column in table.columns] == [
        "timestamp_ntz",
        "struct<timestamp:timestamp_ntz,`timestamp`:array<timestamp_ntz>>",
        "timestamp with local time zone",
    ]
    assert a_hive_table(storage=a_storage(cols=cols, serde=AVRO)).columns == a_storage(cols=cols).columns


def test_a_thousand_bad_partitions_are_counted_not_listed() -> None:
    table = a_hive_table(partitioned_by="n int")
    (blocker,) = find_blockers(table, [a_hive_partition(f"x{n}") for n in range(1000)])
    assert blocker.message.endswith("n=x0, n=x1, n=x2 and 997 more")


def test_spark_tables_keep_their_place_in_a_parameter() -> None:
    storage = a_storage("file:/warehouse/orders-__PLACEHOLDER__", serde_parameters={"path": "file:/real"})
    assert a_hive_table(parameters={PROVIDER: "parquet"}, storage=storage).location == "file:/real"
    assert a_hive_table(storage=storage).location == "file:/warehouse/orders-__PLACEHOLDER__"


def test_a_good_key_has_nothing_in_its_way() -> None:
    table = a_hive_table(partitioned_by="day date")
    assert find_key_blockers(table, [a_hive_partition("2024-01-05")], ["ID", "day"], {"id": 0, "name": 5}) == []


@pytest.mark.parametrize(
    ("key", "nulls", "code", "message"),
    [
        (["nothing"], {}, "key_unknown", "'nothing' is not a column of db.orders"),
        (["price"], {}, "key_type", "is a double"),
        (["tags"], {}, "key_type", "is a array<int>"),
        (["id"], {"id": 3}, "key_null", r"'id' holds nulls \(3 found\)"),
        (["id", "day"], {}, "key_null", "'day' holds nulls"),
    ],
)
def test_what_cannot_be_a_key_is_named(key: list[str], nulls: dict[str, int], code: str, message: str) -> None:
    storage = a_storage(cols="id int; price double; tags array<int>")
    table = a_hive_table(storage=storage, partitioned_by="day date")
    partitions = [a_hive_partition("2024-01-05"), a_hive_partition(NULL_NAME)]
    (blocker,) = find_key_blockers(table, partitions, key, nulls)
    assert blocker.code == code
    assert re.search(message, blocker.message)


def test_an_iceberg_table_without_location_is_only_that() -> None:
    table = replace(a_hive_table(parameters={"table_type": "ICEBERG", "storage_handler": "x"}), type="EXTERNAL_TABLE")
    assert codes(table) == ["iceberg"]


def test_char_columns_are_worth_a_notice() -> None:
    table = a_hive_table(storage=a_storage(cols="id int; code char(5); city string"))
    assert ["code" in notice and "city" not in notice for notice in find_upgrade_notes(table)] == [True]
    assert find_upgrade_notes(a_hive_table()) == []
