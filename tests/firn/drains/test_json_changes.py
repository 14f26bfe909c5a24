"""JSON records as changes without Spark: what is good, what is bad for certain, and what only Spark may read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from firn.drains.changes import OFFSET, Changes
from firn.drains.errors import NeedsSpark
from firn.drains.json_changes import JsonDecoder
from firn.drains.layout import ChangeLayout
from firn.protocol.cdc.rows import LACKS_COLUMN
from tests.firn.test_logs import log
from tests.json_records import BAD, GOOD
from tests.light_records import Message, make_layout

LEFT_TO_SPARK = {
    b'{"id":1',
    b'{"id":1,"amount":12345678901.5}',
    b'{"id":1,"day":"2026-13-40"}',
    b'{"id":1,"place":"text"}',
}
"""Records that Spark refuses. Its parser knows other forms, so the light engine does not decide about them."""


@pytest.fixture
def layout(tmp_path: Path) -> ChangeLayout:
    return make_layout(tmp_path)


def decode(layout: ChangeLayout, values: list[bytes | None], **changes: Any) -> Changes:
    messages = [Message(value, number) for number, value in enumerate(values)]
    return JsonDecoder(layout, log(**changes)).decode(messages)


def rows_of(changes: Changes) -> list[dict[str, Any]]:
    rows = changes.rows.to_pylist()
    return [{k: v for k, v in row.items() if v is not None and not k.startswith("_firn")} for row in rows]


def test_bad_records_have_the_reasons_that_spark_gives_them(layout: ChangeLayout) -> None:
    certain = [record for record in BAD if record[0] not in LEFT_TO_SPARK]
    assert len(certain) == len(BAD) - len(LEFT_TO_SPARK)
    changes = decode(layout, [*(value for value, _, _ in certain), *(value for value, _ in GOOD)])
    bad = {record.place[1]: (record.reason, record.column) for record in changes.bad}
    assert bad == {number: (reason, column) for number, (_, reason, column) in enumerate(certain)}
    assert rows_of(changes) == [{"_op": "U", **expected} for _, expected in GOOD]
    assert changes.rows[OFFSET].to_pylist() == [*range(len(certain), len(certain) + len(GOOD))]


@pytest.mark.parametrize(
    "value",
    [
        *sorted(LEFT_TO_SPARK),
        b"{'id': 1}",
        b'{"id": 1} x',
        b'{"id": 1, "n": ""}',
        b'{"id": 1, "name": 5}',
        b'{"id": 1, "name": {"a": 1}}',
        b'{"id": 1, "name": "\\ud800"}',
        b'{"id": 1, "ratio": "NaN"}',
        b'{"id": 1, "ratio": NaN}',
        b'{"id": 1, "ok": "true"}',
        b'{"id": 1, "day": "0001-01-01T00:00:00"}',
        b'{"id": 1, "at": "2026-01-01"}',
        b'{"id": 1, "at": 1767225600}',
        b'{"id": 1, "seen": "2026-01-01T00:00:00"}',
        b'{"id": 1, "data": "###"}',
        b'{"id": 1, "list": 1}',
        b'{"id": 1, "n": [1]}',
        b'{"id":' + b"[" * 100_000,
        b'{"id":' + b"9" * 5_000 + b"}",
    ],
)
def test_a_record_that_spark_may_read_in_its_own_way_goes_to_spark(tmp_path: Path, value: bytes) -> None:
    """With and without decimals, for which another parser is taken: neither of the two decides."""
    for names in ((), tuple(name for name in make_layout(tmp_path).types if name != "amount")):
        if names and b"amount" in value:
            continue
        if value.startswith(b'{"id":9') and not names:
            continue  # a whole number, and too large for certain
        with pytest.raises(NeedsSpark):
            decode(make_layout(tmp_path, *names), [b'{"id": 0}', value])


def test_values_have_the_types_of_their_columns(layout: ChangeLayout) -> None:
    value = (
        b'{"id":1,"ratio":1,"small":0.5,"at":"2026-01-02 03:04:05.678","seen":"2026-01-02T03:04:05+02:00",'
        b'"data":"AAE=","place":{"x":3,"y":4},"list":[null,1],"ok":false,"day":"2026-02-28","name":"\xc3\xa4"}'
    )
    assert rows_of(decode(layout, [value])) == [
        {
            "id": 1,
            "ratio": 1.0,
            "small": 0.5,
            "at": datetime(2026, 1, 2, 3, 4, 5, 678_000),  # noqa: DTZ001 -- the type has no zone
            "seen": datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC),
            "data": b"\x00\x01",
            "place": {"x": 3},
            "list": [None, 1],
            "ok": False,
            "day": date(2026, 2, 28),
            "name": "ä",
            "_op": "U",
        }
    ]


def test_a_delete_is_bad_or_left_out_if_the_table_says_so(layout: ChangeLayout) -> None:
    values: list[bytes | None] = [b'{"_op":"D","id":1}', b'{"id":2}']
    stopped = decode(layout, values, deletes="stop")
    assert [record.reason for record in stopped.bad] == ["the record is a delete, and firn.log.deletes is stop"]
    assert [row["id"] for row in rows_of(decode(layout, values, deletes="ignore"))] == [2]


def test_an_insert_only_table_takes_inserts_only(layout: ChangeLayout) -> None:
    values: list[bytes | None] = [b'{"id":1}', b'{"id":2,"_op":"I"}', b'{"id":3,"_op":"U"}', b'{"id":4,"_op":"D"}']
    insert_only = replace(layout, is_insert_only=True)
    changes = decode(insert_only, values)
    assert [(row["id"], row["_op"]) for row in rows_of(changes)] == [(1, "I"), (2, "I")]
    assert {record.reason for record in changes.bad} == {"the table is insert-only, and the record is no insert"}
    assert [record.place[1] for record in decode(insert_only, values, deletes="ignore").bad] == [2]


def test_a_delete_needs_the_sequence_field(tmp_path: Path) -> None:
    layout = make_layout(tmp_path, "id", "n", **{"firn.sequence-field": "n"})
    changes = decode(layout, [b'{"id":1}', b'{"_op":"D","id":1,"n":2}'])
    assert [(record.reason, record.column) for record in changes.bad] == [("the column must not be null", "n")]
    assert rows_of(changes) == [{"id": 1, "n": 2, "_op": "D"}]


def test_upserts_without_a_value_delete_their_key(tmp_path: Path) -> None:
    layout = make_layout(tmp_path, "id", "name")
    messages = [
        Message(b'{"id":1,"name":"a"}', 0, b'{"id":1}'),
        Message(None, 1, b'{"id":1,"name":"b"}'),
        Message(None, 2, b'{"id":"1"}'),
        Message(None, 3, None),
        Message(None, 4, b"7"),
        Message(None, 5, b"\xff"),
        Message(None, 6, b'{"name":"b"}'),
        Message(b"", 7, b'{"id":1}'),
    ]
    changes = JsonDecoder(layout, log(format="upsert-json")).decode(messages)
    assert rows_of(changes) == [{"id": 1, "name": "a", "_op": "U"}, {"id": 1, "_op": "D"}]
    assert {record.place[1]: (record.reason, record.column) for record in changes.bad} == {
        2: ("the key does not fit the column", "id"),
        3: ("the record has no key", None),
        4: ("the key is not a JSON object", None),
        5: ("the key is not UTF-8", None),
        6: ("the column must not be null", "id"),
        7: ("the value is not a JSON object", None),
    }


def test_changes_of_a_partial_table_set_all_columns(tmp_path: Path) -> None:
    changes = decode(make_layout(tmp_path, "id", "n", **{"firn.partial": "true"}), [b'{"id":1}'])
    assert changes.rows["_set"].null_count == 1


@pytest.mark.parametrize("order", [1, -1])
def test_a_field_without_a_column_is_found_among_records_of_the_same_length(layout: ChangeLayout, order: int) -> None:
    """Records with all columns and no other field are read faster; the number of fields alone does not tell them."""
    names = [column.name for column in layout.columns if column.name != "id"]
    usual = {"id": 1, **dict.fromkeys(names), "_op": "U"}
    for other in (
        {"id": 2, **dict.fromkeys(names), "more": 5},
        {"id": 2, **dict.fromkeys(names[1:]), "_op": "U", "more": 5},
    ):
        values = [orjson.dumps(record) for record in (usual, other)[::order]]
        changes = decode(layout, [*values], schema_changes="add")
        assert [(record.reason, record.column) for record in changes.bad] == [(LACKS_COLUMN, "more")]
        assert rows_of(changes) == [{"_op": "U", "id": 1}]
