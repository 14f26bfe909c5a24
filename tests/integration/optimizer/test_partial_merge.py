"""Partial columns through Spark: the image, the view, and base after each way of merging agree."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from firn.spark.errors import RowsRefused
from firn.spark.local_frames import create_local_frame
from firn.spark.write import upsert
from optimizer.worker import Worker
from tests.keyed_tables import KeyedTable
from tests.partial_model import name_properties
from tests.spark_fixtures import RunningServer

pytestmark = pytest.mark.spark
PARTIAL = {"firn.primary-key": "id", "firn.partial": "true"}
COLUMNS = "id BIGINT, email STRING, phone STRING, visits INT"


def check(table: KeyedTable, *rows: tuple[Any, ...]) -> None:
    """The image that the server serves, and the view in Spark's SQL."""
    assert table.rows() == list(rows)
    assert table.rows(".merged") == list(rows)


def patch(table: KeyedTable, columns: str, *rows: tuple[Any, ...]) -> None:
    """Upsert some columns; the first is the key."""
    names = [column.split()[0] for column in columns.split(", ")]
    frame = create_local_frame(table.server.spark, list(rows), columns)
    upsert(frame, table.name, columns=names[1:])


@pytest.mark.parametrize("partition", ["", "bucket(2, id)"], ids=["unpartitioned", "by buckets of the key"])
def test_columns_that_are_not_given_stay_through_all_merges(
    server: RunningServer, worker: Worker, partition: str
) -> None:
    table = KeyedTable(server, worker, COLUMNS, partition, **PARTIAL)
    with pytest.raises(RowsRefused, match="no column mail"):
        patch(table, "id BIGINT, mail STRING", (1, "a"))
    table.upsert((1, "a@", "1", 1), (2, "b@", "2", 2), (3, "c@", "3", 3))
    for mode in ("rewrite", "vectors", "adopt"):
        patch(table, "id BIGINT, email STRING", (1, mode), (2, None), (9, "new"))
        patch(table, "id BIGINT, visits INT", (1, 7))
        table.delete((3,), columns="id BIGINT")
        patch(table, "id BIGINT, phone STRING", (3, mode))
        server.spark.sql(f"INSERT INTO {table.name} (id, email) VALUES (8, '{mode}')")
        last = [(3, None, mode, None), (8, mode, None, None), (9, "new", None, None)]
        rows = [(1, mode, "1", 7), (2, None, "2", 2), *last]
        check(table, *rows)
        job = table.run("merge", mode=mode)
        assert (job["status"], job["error"]) == ("succeeded", None)
        check(table, *rows)
        assert table.rows(".base") == rows
        server.spark.sql(f"UPDATE {table.name} SET phone = '0' WHERE id = 9")
        patch(table, "id BIGINT, email STRING", (9, "x"))
        check(table, *rows[:-1], (9, "x", "0", None))
        table.upsert((9, "new", None, None))


def test_a_table_without_the_property_takes_all_columns(server: RunningServer, worker: Worker) -> None:
    table = KeyedTable(server, worker, COLUMNS, "", **{"firn.primary-key": "id"})
    with pytest.raises(RowsRefused, match="changes set all columns of this table"):
        patch(table, "id BIGINT, email STRING", (1, "a"))
    server.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('firn.partial' = 'true')")
    patch(table, "id BIGINT, email STRING", (1, "a"))
    check(table, (1, "a", None, None))


def test_columns_with_rules_through_all_merges(server: RunningServer, worker: Worker) -> None:
    """Base has sums already, a key comes again, and a delete resets."""
    columns = "id BIGINT, total BIGINT, paid DECIMAL(9, 2), top INT, low DATE, began STRING, city STRING"
    rules = {"total": "sum", "paid": "sum", "top": "max", "low": "min", "began": "first", "city": "last-not-null"}
    properties = {f"firn.column.{column}.rule": rule for column, rule in rules.items()}
    table = KeyedTable(server, worker, columns, "", **PARTIAL, **properties)
    day = date(2026, 1, 1)
    total = 0
    for number, mode in enumerate(("rewrite", "vectors", "adopt")):
        paid, low = Decimal("1.25"), day - timedelta(days=number)
        table.upsert((1, 10, paid, number, low, mode, mode), (2, 1, paid, 7, day, mode, None))
        patch(table, "id BIGINT, total BIGINT, city STRING", (1, -3, None), (3, 5, "x"))
        table.delete((2,), columns="id BIGINT")
        patch(table, "id BIGINT, total BIGINT", (2, number))
        total += 7
        first = (1, total, paid * (number + 1), number, low, "rewrite", mode)
        rows = [first, (2, number, None, None, None, None, None), (3, 5 * number + 5, None, None, None, None, "x")]
        check(table, *rows)
        job = table.run("merge", mode=mode)
        assert (job["status"], job["error"]) == ("succeeded", None)
        check(table, *rows)
        assert table.rows(".base") == rows
    with pytest.raises(Exception, match="has to name its writer"):
        server.spark.sql(f"INSERT INTO {table.name} (id, total) VALUES (1, 1)")


def test_the_later_value_of_a_group_wins_through_all_merges(server: RunningServer, worker: Worker) -> None:
    """Two clocks order the two groups; base holds the sequence values after each merge."""
    columns = "id BIGINT, email STRING, email_at INT, city STRING, zip STRING, moved_at DATE, note STRING"
    groups = name_properties(
        {}, {"email": "email_at", "email_at": "email_at", "city": "moved_at", "zip": "moved_at", "moved_at": "moved_at"}
    )
    table = KeyedTable(server, worker, columns, "", **PARTIAL, **groups)
    with pytest.raises(RowsRefused, match="set together: name email_at, too"):
        patch(table, "id BIGINT, email STRING", (1, "a"))
    with pytest.raises(RowsRefused, match="null are email_at in 1 rows"):
        patch(table, "id BIGINT, email STRING, email_at INT", (1, "a", None))
    day, rows = date(2026, 1, 1), list[tuple[Any, ...]]()
    for number, mode in enumerate(("rewrite", "vectors", "adopt"), start=1):
        at, later = number * 10, day + timedelta(days=number)
        patch(table, "id BIGINT, email STRING, email_at INT", (6, mode, 100 - number))
        patch(table, "id BIGINT, email STRING, email_at INT", (1, mode, at), (2, mode, at))
        patch(table, "id BIGINT, email STRING, email_at INT", (1, "late", at - 5), (3, mode, 7))
        patch(table, "id BIGINT, city STRING, zip STRING, moved_at DATE", (1, mode, None, later))
        table.upsert((1, "whole", at - 1, "whole", "0", day, mode), (4, mode, None, None, None, None, None))
        table.delete((2,), columns="id BIGINT")
        patch(table, "id BIGINT, email STRING, email_at INT", (2, "back", 1))
        last = [(3, mode, 7, None, None, None, None), (4, mode, None, None, None, None, None)]
        last.append((6, "rewrite", 99, None, None, None, None))
        rows = [(1, mode, at, mode, None, later, mode), (2, "back", 1, None, None, None, None), *last]
        check(table, *rows)
        job = table.run("merge", mode=mode)
        assert (job["status"], job["error"]) == ("succeeded", None)
        check(table, *rows)
        assert table.rows(".base") == rows
    server.spark.sql(f"UPDATE {table.name} SET email = 'by SQL' WHERE id IN (1, 4)")
    server.spark.sql(f"INSERT INTO {table.name} (id, email, email_at) VALUES (3, 'early', 6), (5, 'new', 1)")
    first, fourth = (1, "by SQL", 30, *rows[0][3:]), (4, "by SQL", *rows[3][2:])
    check(table, first, rows[1], rows[2], fourth, (5, "new", 1, None, None, None, None), rows[4])


def test_rows_that_are_too_old_leave_with_their_partial_changes(server: RunningServer, worker: Worker) -> None:
    ttl = {"firn.ttl.field": "day", "firn.ttl.max-age": "10 d"}
    table = KeyedTable(server, worker, "id BIGINT, day DATE, v STRING", "", **PARTIAL, **ttl)
    today = datetime.now(UTC).date()
    old = today - timedelta(days=30)
    table.upsert((1, old, "old"), (2, old, "renewed"), (3, today, "aged"), (4, today, "young"))
    assert table.run("merge", mode="adopt")["status"] == "succeeded"
    patch(table, "id BIGINT, v STRING", (1, "patched"), (4, "patched"), (5, "without a day"))
    patch(table, "id BIGINT, day DATE", (2, today), (3, old))
    job = table.run("ttl")
    assert (job["status"], job["error"], job["result"]["merged"]) == ("succeeded", None, True)
    rows = [(2, today, "renewed"), (4, today, "patched"), (5, None, "without a day")]
    check(table, *rows)
    assert table.rows(".base") == rows
