"""The sample of footers that suggestions of keys rest on, and the suggestions of a check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from catalog.files.data_file import FileFormat
from catalog.hive.baseline import ChangeSignals
from catalog.hive.listing import ListedFile, Listing
from server.launch.query_engine import QueryProcess
from server.service.hive.hive_state import Unit
from server.service.hive.key_evidence import MOST_FILES, FileSampler
from server.service.hive.upgrade_check import Report
from tests.factories import LAKE
from tests.hive_tables import ORC, a_hive_table, a_storage
from tests.server.service.hive.beside_hive import BesideHive


def check(beside: BesideHive, columns: str, *tables: pa.Table, declared: Sequence[str] = ()) -> Report:
    """The check of a new table with a file for each of these Arrow tables."""
    directory = beside.directory / "hive" / "orders"
    directory.mkdir(parents=True)
    for number, rows in enumerate(tables):
        pq.write_table(rows, directory / f"{number}.parquet")
    beside.metastore.add_table(a_hive_table(name="orders", storage=a_storage(f"file:{directory}", columns)))
    if declared:
        beside.metastore.declare_primary_key("db", "orders", declared)
    return beside.upgrades.checks.report(LAKE, "db.orders", [])


def test_a_check_suggests_keys_by_footers_names_and_the_declared_key(beside: BesideHive) -> None:
    rows = pa.table({"store_id": [7] * 3, "code_id": pa.array([3, 1, 2], pa.int32()), "id": ["a", "b", "c"]})
    report = check(beside, "store_id bigint; code_id int; id string", rows, declared=["code_id"])
    assert [suggestion.columns for suggestion in report.key_suggestions] == [("code_id",), ("id",)]
    assert report.candidates == ("store_id", "code_id", "id")
    assert report.to_json()["key_suggestions"][0]["confidence"] == "declared"


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("date", pa.array([1, 1, 2], pa.int32()).cast(pa.date32())),
        ("decimal(9,0)", pa.array([Decimal(-1), Decimal(-1), Decimal(0)], pa.decimal128(9, 0))),
    ],
)
def test_footers_prove_repeated_days_and_whole_decimals(beside: BesideHive, kind: str, values: pa.Array) -> None:
    assert check(beside, f"a_id {kind}", pa.table({"a_id": values})).key_suggestions == ()


def test_a_damaged_file_leaves_the_suggestions_to_the_others(beside: BesideHive) -> None:
    (beside.directory / "hive" / "orders").mkdir(parents=True)
    (beside.directory / "hive" / "orders" / "bad.parquet").write_bytes(b"PAR1 no footer")
    (beside.directory / "hive" / "orders").rename(beside.directory / "hive" / "damaged")
    directory = beside.directory / "hive" / "damaged"
    pq.write_table(pa.table({"a_id": [1, 1, 1], "b_id": [1, 2, 3]}), directory / "good.parquet")
    storage = a_storage(f"file:{directory}", "a_id bigint; b_id bigint")
    beside.metastore.add_table(a_hive_table(name="damaged", storage=storage))
    report = beside.upgrades.checks.report(LAKE, "db.damaged", [])
    assert [suggestion.columns for suggestion in report.key_suggestions] == [("b_id",)]


def test_sampled_rows_disprove_and_support_keys(beside: BesideHive) -> None:
    a_file = pa.table({"a_id": [10, 20, 30], "b_id": ["x", "y", "z"], "c_id": ["x", None, "z"], "id": ["p", "q", "r"]})
    another = pa.table({"a_id": [15, 20, 35], "b_id": ["u", "v", "w"], "c_id": ["a", "b", "c"], "id": ["p", "q", "s"]})
    columns = "a_id bigint; b_id string; c_id string; id string"
    report = check(beside, columns, a_file, another, declared=["id"])
    assert [suggestion.columns for suggestion in report.key_suggestions] == [("b_id",)]
    assert report.key_suggestions[0].evidence[-1] == "no duplicate in 6 sampled rows of 2 files"
    assert [(key.columns, key.reason) for key in report.disproved_keys] == [
        (
            ("id",),
            "the metastore has it as the primary key, but 2 of 6 sampled rows of 2 files repeat the key of another row",
        ),
        (("a_id",), "1 of 6 sampled rows of 2 files repeats the key of another row"),
    ]
    assert report.to_json()["disproved_keys"][1]["columns"] == ("a_id",)
    assert "c_id" in report.candidates


def test_a_key_that_repeats_across_partitions_is_unique_with_their_columns(beside: BesideHive) -> None:
    table = beside.hive_table()
    table.add("z", 1, 2, 3)
    report = beside.upgrades.checks.report(LAKE, table.name, [])
    assert [suggestion.columns for suggestion in report.key_suggestions] == [("id", "p")]
    assert report.key_suggestions[0].evidence[-1] == "no duplicate in 6 sampled rows of 3 files"
    assert [(key.columns, key.reason) for key in report.disproved_keys] == [
        (("id",), "3 of 6 sampled rows of 3 files repeat the key of another row")
    ]
    table.add("__HIVE_DEFAULT_PARTITION__", 1, 2, 3)
    report = beside.upgrades.checks.report(LAKE, table.name, [])
    assert report.key_suggestions == ()
    assert [(key.columns, key.reason) for key in report.disproved_keys] == [
        (("id", "p"), "3 of 9 sampled rows of 4 files have a null in it"),
        (("id",), "6 of 9 sampled rows of 4 files repeat the key of another row"),
    ]


def test_the_asked_key_is_sampled_whatever_its_name(beside: BesideHive) -> None:
    check(beside, "who string; what string", pa.table({"who": ["a", "a"], "what": ["x", "y"]}))
    results = {}
    for key in (["who"], ["what"], ["who", "what"]):
        report = beside.upgrades.checks.report(LAKE, "db.orders", key)
        assert (report.key_suggestions, report.disproved_keys, report.eligible) == ((), (), True)
        results[*key] = [(check.status, check.message) for check in report.checks if check.code == "key_sample"]
    repeats = "(who) is no key: 1 of 2 sampled rows of 1 file repeats the key of another row"
    assert results["who",] == [("warn", repeats)]
    assert results["what",] == [("ok", "(what) has no duplicate in 2 sampled rows of 1 file")]
    assert results["who", "what"] == [("ok", "(who, what) has no duplicate in 2 sampled rows of 1 file")]


def test_orc_files_are_sampled(beside: BesideHive) -> None:
    directory = beside.directory / "hive" / "inorc"
    directory.mkdir(parents=True)
    orc.write_table(pa.table({"a_id": [1, 1], "b_id": [1, 2]}), directory / "a.orc")
    storage = a_storage(f"file:{directory}", "a_id bigint; b_id bigint", serde=ORC)
    beside.metastore.add_table(a_hive_table(name="inorc", storage=storage))
    report = beside.upgrades.checks.report(LAKE, "db.inorc", [])
    assert report.key_suggestions[0].columns == ("b_id",)
    assert report.key_suggestions[0].evidence[-1] == "no duplicate in 2 sampled rows of 1 file"


def test_a_file_whose_rows_are_damaged_is_left_out_of_the_sample(beside: BesideHive) -> None:
    rows = pa.table({"a_id": [str(number) for number in range(5_000)]})
    check(beside, "a_id string", rows, rows)
    damaged = beside.directory / "hive" / "orders" / "0.parquet"
    content = bytearray(damaged.read_bytes())
    content[4:5_000] = b"\xff" * 4_996
    damaged.write_bytes(content)
    report = beside.upgrades.checks.report(LAKE, "db.orders", [])
    assert report.key_suggestions[0].evidence[-1] == "no duplicate in 5,000 sampled rows of 1 file"


def test_no_rows_are_read_where_the_server_reads_none_or_the_process_fails(beside: BesideHive) -> None:
    rows = pa.table({"a_id": [1, 9, 9]})
    assert check(beside, "a_id bigint", rows).key_suggestions == ()
    checks, sampler = beside.upgrades.checks, beside.upgrades.checks.row_sampler
    broken = QueryProcess(600.0, command=("false",))
    for without in (replace(sampler, enabled=False), replace(sampler, engine=broken)):
        report = replace(checks, row_sampler=without).report(LAKE, "db.orders", [])
        assert [suggestion.columns for suggestion in report.key_suggestions] == [("a_id",)]
        assert report.disproved_keys == ()


def test_a_blocked_table_has_no_suggestions(beside: BesideHive) -> None:
    beside.metastore.add_table(a_hive_table(name="v", storage=a_storage("file:/v", "id bigint"), type="VIRTUAL_VIEW"))
    assert beside.upgrades.checks.report(LAKE, "db.v", []).key_suggestions == ()


def test_the_sample_is_spread_over_a_listing_of_any_length() -> None:
    sampler = FileSampler()
    for day in range(1_000):
        unit = Unit(name=f"day={day}", values=(str(day),), signals=ChangeSignals(location=f"file:/t/day={day}"))
        files = tuple(ListedFile(path=f"{number}", size=1, mtime_ns=0) for number in range(3))
        sampler.add(unit, Listing(location=unit.location, files=files, began_ns=0))
    chosen = sampler.chosen
    assert MOST_FILES <= len(chosen) <= 2 * MOST_FILES
    days = [int(location.split("day=")[1].split("/")[0]) for location, *_ in chosen]
    gaps = {later - earlier for earlier, later in pairwise(days)}
    assert max(gaps) - min(gaps) <= 1
    assert days[-1] > 700


def test_avro_has_no_footers_to_sample() -> None:
    sampler = FileSampler()
    unit = Unit(name="", values=(), signals=ChangeSignals(location="file:/t"), format=FileFormat.AVRO)
    sampler.add(unit, Listing(location="file:/t", files=(ListedFile(path="a", size=1, mtime_ns=0),), began_ns=0))
    assert sampler.chosen == []
