"""The files of a pipeline's tests, and random rows of its inputs."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path

import pytest

from firn.errors import Invalid
from firn.pipelines.cases import Case, RowChanges, read_cases
from firn.pipelines.generated_rows import RowSource, find_literals
from firn.pipelines.parsing import parse_query

TYPES = {
    "a": "boolean",
    "b": "bigint",
    "c": "decimal(4,3)",
    "d": "double",
    "e": "varchar(2)",
    "f": "binary",
    "g": "date",
    "h": "timestamp",
    "i": "timestamp_ntz",
    "j": "tinyint",
}


def read(folder: Path, text: str, name: str = "a_case.yml") -> list[Case]:
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "tests" / name).write_text(text)
    return read_cases(folder, lambda table: f"mart.{table}")


def test_a_case_is_read(tmp_path: Path) -> None:
    (case,) = read(
        tmp_path,
        "given: {t: [{K: 1, v: '', day: 2026-01-01}, {v: ~}]}\n"
        "change: {t: {delete: [{k: 1}], insert: [{v: null}]}, u: {insert: []}}\n"
        "expect: {x: []}",
    )
    assert (case.path, case.title) == ("tests/a_case.yml", "a case")
    assert case.given == {"mart.t": [{"k": "1", "v": "", "day": "2026-01-01"}, {"v": None}]}
    assert case.change == {"mart.t": RowChanges([{"k": "1"}], [{"v": None}]), "mart.u": RowChanges()}
    assert case.expect == {"mart.x": []}


def test_a_folder_without_tests_has_no_cases(tmp_path: Path) -> None:
    assert read_cases(tmp_path, str) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("given: {}", "a_case.yml, line 1: a test needs expect"),
        ("expect: {t: 1}", "t is not a list"),
        ("expect: {t: [1]}", "t, entry 1 is not a mapping"),
        ("expect: {t: []}\ngiven: {t: [{k: [1]}]}", "line 2: k is not a text"),
        ("expect: {t: []}\nchanges: {}", "line 2: the file has no field 'changes'"),
        ("expect: {t: []}\nchange: {t: {add: []}}", "t has no field 'add'"),
        (f"expect: {{t: [{'{k: 1},' * 10_001}]}}", "t has 10,001 rows; 10,000 are allowed"),
        ("expect: &a {t: []}\ngiven: *a", "references are not allowed"),
        ("- 1", "has no fields"),
        ("\0", ""),
    ],
)
def test_what_is_no_test_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(Invalid, match=r"a_case\.yml") as refused:
        read(tmp_path, text)
    assert message in refused.value.message


def test_random_rows_have_the_types_and_meet_the_literals() -> None:
    literals = find_literals([parse_query("select * from t where e = 'x' and b in (77, 99999999999999999999)")])
    source = RowSource("t", TYPES, literals, random.Random(1))
    rows = source.make(400)
    columns = {name: {row[place] for row in rows} for place, name in enumerate(TYPES)}
    assert all(None in values for values in columns.values())
    kinds = [bool, int, Decimal, float, str, bytes, dt.date, dt.datetime, dt.datetime, int]
    for values, kind in zip(columns.values(), kinds, strict=True):
        assert all(isinstance(value, kind) for value in values if value is not None)
    assert {"x", "a"} <= columns["e"]
    assert 77 in columns["b"]
    assert max(value for value in columns["b"] if value is not None) == 77
    assert columns["c"] >= {Decimal("0.400"), Decimal("0.000")}


def test_changes_are_repeatable_and_leave_the_given_rows() -> None:
    rows = RowSource("t", TYPES, [], random.Random(2)).make(3)
    kept = list(rows)
    first, second = (RowSource("t", TYPES, [], random.Random(3)) for _ in range(2))
    results = [first.change(rows) for _ in range(30)]
    assert results == [second.change(rows) for _ in range(30)]
    assert rows == kept
    assert all(result != rows for result in results[:5]) or len({str(result) for result in results}) > 5
    assert {len(result) for result in results} >= {2, 3, 4}


@pytest.mark.parametrize("type_", ["array<int>", "unknown", "struct<a: int>"])
def test_no_rows_are_made_up_for_nested_types(type_: str) -> None:
    with pytest.raises(Invalid, match=r"t.x is of type"):
        RowSource("t", {"x": type_}, [], random.Random(1))
