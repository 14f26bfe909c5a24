"""Which Hive tables can be rewritten, and how a conversion's commit is judged."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.errors import CommitRefused
from catalog.hive.conversion import convert_columns, count_header_lines, find_conversion_blockers
from catalog.hive.conversion_commit import check_conversion_commit
from catalog.hive.model import HiveTable
from catalog.hive.readers import CSV
from catalog.hive.upgrade_check import find_blockers
from tests.hive_tables import AVRO, ORC, PARQUET_SERDE, TEXT, a_hive_partition, a_hive_table, a_storage

INPUT = "org.apache.hadoop.mapred.TextInputFormat"
JSON = "org.apache.hive.hcatalog.data.JsonSerDe"


def a_text_table(serde: str = TEXT, cols: str = "id int; at timestamp", **args: Any) -> HiveTable:
    storage = a_storage("file:/t", cols, serde=serde, **({"input_format": INPUT} | args.pop("stored", {})))
    return a_hive_table(storage=storage, **args)


@pytest.mark.parametrize(
    ("serde", "stored"),
    [
        (TEXT, {}),
        (TEXT, {"input_format": "org.apache.hadoop.mapred.SequenceFileInputFormat"}),
        (TEXT, {"buckets": 4, "bucket_columns": ("id",)}),
        (CSV, {"serde_parameters": {"separatorChar": ";"}}),
        (JSON, {}),
        ("org.apache.hadoop.hive.serde2.RegexSerDe", {"serde_parameters": {"input.regex": "(.*)"}}),
    ],
)
def test_what_cannot_be_upgraded_but_read_is_convertible_and_its_blocker_says_so(
    serde: str, stored: dict[str, Any]
) -> None:
    table = a_text_table(serde, stored=stored)
    assert find_conversion_blockers(table, []) == []
    assert "`firn hive convert db.orders`" in next(
        blocker.advice for blocker in find_blockers(table, []) if blocker.code == "format"
    )


@pytest.mark.parametrize("serde", [PARQUET_SERDE, ORC])
def test_a_bucketed_table_is_convertible_whose_files_an_upgrade_would_take(serde: str) -> None:
    storage = a_storage("file:/t", "id int", serde=serde, buckets=4, bucket_columns=("id",))
    table = a_hive_table(storage=storage)
    assert find_conversion_blockers(table, []) == []
    [blocker] = find_blockers(table, [])
    assert (blocker.code, "`firn hive convert db.orders`" in blocker.advice) == ("bucketed", True)


def test_partitions_in_parquet_have_the_columns_of_the_table_in_their_places() -> None:
    table = a_text_table(cols="id int; name string", partitioned_by="p string")
    fewer, renamed = (a_storage("file:/t/x", cols) for cols in ("ID int", "id int; former string"))
    assert find_conversion_blockers(table, [a_hive_partition("x", storage=fewer)]) == []
    [blocker] = find_conversion_blockers(table, [a_hive_partition("x", storage=renamed)])
    assert "partition p=x of db.orders has a column 'former' in its place" in blocker.message


def test_a_bucketed_table_of_sparks_own_is_left_to_spark() -> None:
    parameters = {"spark.sql.sources.provider": "parquet", "spark.sql.sources.schema.numBuckets": "4"}
    table = a_hive_table(parameters=parameters)
    [blocker] = find_conversion_blockers(table, [])
    assert "whose files need no rewrite" in blocker.message
    [blocker] = find_blockers(table, [])
    assert "firn hive convert" not in blocker.advice


@pytest.mark.parametrize(
    ("table", "code", "reason"),
    [
        (a_hive_table(), "format", "whose files need no rewrite"),
        (a_hive_table(type="VIRTUAL_VIEW", storage=a_storage(serde=TEXT)), "view", "is a view"),
        (a_text_table(parameters={"transactional": "true"}), "transactional", "known to Hive alone"),
        (a_text_table(parameters={"spark.sql.sources.provider": "csv"}), "spark_format", "a Spark table in format"),
        (
            a_text_table(stored={"input_format": "com.hadoop.Lzo"}),
            "format",
            "over com.hadoop.Lzo, which Spark does not",
        ),
        (a_text_table("org.apache.hadoop.hive.contrib.Typed"), "format", "contrib.Typed over"),
        (a_text_table(JSON, stored={"serde_parameters": {"mapping.a": "b"}}), "format", "of its own (mapping.a)"),
        (a_text_table(JSON, "b array<binary>"), "column_type", "'b' of db.orders is binary"),
        (a_text_table(parameters={"skip.footer.line.count": "1"}), "format", "leaves out lines at the end"),
        (a_text_table(parameters={"skip.header.line.count": "one"}), "format", "a number of lines that is none"),
        (a_text_table(cols="u uniontype<int,string>"), "column_type", "uniontype"),
    ],
)
def test_what_spark_would_read_otherwise_than_hive_is_blocked(table: HiveTable, code: str, reason: str) -> None:
    [blocker] = find_conversion_blockers(table, [])
    assert blocker.code == code
    assert reason in blocker.message


def test_a_partition_that_cannot_be_read_is_named() -> None:
    table = a_text_table(partitioned_by="p string")
    good, bad = a_hive_partition("x", storage=table.storage), a_hive_partition("y", storage=a_storage(serde=AVRO))
    assert find_conversion_blockers(table, [good]) == []
    [blocker] = find_conversion_blockers(table, [good, bad])
    assert blocker.message.startswith("partition p=y of db.orders is read by")


def test_times_in_text_have_no_zone_and_csv_has_strings() -> None:
    assert [column.type for column in convert_columns(a_text_table())] == ["int", "timestamp_ntz"]
    in_parquet = a_hive_table(storage=a_storage("file:/t", "id int; at timestamp"))
    assert [column.type for column in convert_columns(in_parquet)] == ["int", "timestamp"]
    assert [column.type for column in convert_columns(a_text_table(CSV))] == ["string", "string"]


@pytest.mark.parametrize(("parameters", "count"), [({}, 0), ({"skip.header.line.count": "2"}, 2)])
def test_header_lines(parameters: dict[str, str], count: int) -> None:
    assert count_header_lines(a_text_table(parameters=parameters)) == count


EMPTY = {"current-snapshot-id": -1, "snapshots": []}
FILLED = {"current-snapshot-id": 1, "snapshots": [{"snapshot-id": 1}]}
EMPTIED = {"current-snapshot-id": -1, "snapshots": [{"snapshot-id": 1}]}


def an_append(read: str, written: str | None, operation: str = "append") -> list[dict[str, Any]]:
    summary = {"operation": operation, "firn.rows-read": read}
    summary |= {} if written is None else {"added-records": written}
    return [{"action": "add-snapshot", "snapshot": {"snapshot-id": 2, "summary": summary}}]


def test_every_row_that_was_counted_fills_an_empty_table() -> None:
    check_conversion_commit(EMPTY, an_append("3", "3"))
    check_conversion_commit(EMPTY, an_append("0", None))


@pytest.mark.parametrize(
    ("metadata", "updates", "reason"),
    [
        (EMPTY, an_append("3", "2"), "counted 3 rows in the Hive table and wrote 2"),
        (EMPTY, an_append("", "2"), "counted"),
        (EMPTY, an_append("2", "2", "overwrite"), "one append"),
        (EMPTY, [], "one append"),
        (FILLED, an_append("2", "2"), "somebody has written"),
        (EMPTIED, an_append("2", "2"), "somebody has written"),
    ],
)
def test_anything_else_is_refused(metadata: dict[str, Any], updates: list[dict[str, Any]], reason: str) -> None:
    with pytest.raises(CommitRefused, match=reason):
        check_conversion_commit(metadata, updates)


def test_a_view_is_not_said_to_be_upgradable() -> None:
    [blocker] = find_conversion_blockers(a_hive_table(type="VIRTUAL_VIEW"), [])
    assert blocker.code == "view"


def test_what_cannot_be_upgraded_either_leads_to_its_check() -> None:
    by_position = a_hive_table(parameters={"orc.force.positional.evolution": "true"})
    [blocker] = find_conversion_blockers(by_position, [])
    assert "`firn hive check db.orders`" in blocker.advice
