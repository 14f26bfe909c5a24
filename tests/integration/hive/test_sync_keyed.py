"""What Hive-side writers do to a keyed table: the view says what replaying both sides in order says."""

from __future__ import annotations

import pytest

from tests.integration.hive.tables import HiveTable, Side, fingerprint

pytestmark = [pytest.mark.hive, pytest.mark.spark]
COLUMNS = "id BIGINT, v STRING"
PARTITION = "p STRING"


@pytest.fixture
def orders(side: Side) -> HiveTable:
    """Three keys in two partitions, upgraded."""
    return side.table(COLUMNS, PARTITION, "VALUES (1, 'a', 'x'), (2, 'b', 'x')", "VALUES (3, 'c', 'y')").upgrade("id")


def test_a_spark_insert_that_no_signal_tells_of_becomes_upserts(orders: HiveTable) -> None:
    orders.insert("VALUES (4, 'new', 'x'), (3, 'again', 'x')")
    outcome = orders.sync()
    assert outcome["did"] == "partitions new files: 1"
    assert orders.rows() == [(1, "a", "x"), (2, "b", "x"), (3, "again", "x"), (4, "new", "x")]
    sources = orders.rows("_op, _source LIKE 'file:%#%'", ".change")
    assert sources == [("U", True), ("U", True)]
    assert orders.ask_sync()["did"] == "nothing changed"


def test_an_overwritten_partition_is_rebuilt_under_the_changes_that_hive_never_saw(orders: HiveTable) -> None:
    orders.change("SELECT 1, 'mine', 'x'")
    orders.change("SELECT 5, 'mine too', 'x'")
    orders.change("SELECT 3, 'moved here', 'x'")
    orders.insert("VALUES (1, 'theirs', 'x'), (9, 'theirs', 'x')", how="OVERWRITE")
    before = fingerprint(orders.path)
    outcome = orders.sync()
    assert outcome["did"] == "partitions rewritten or moved: 1"
    expected = [(1, "mine", "x"), (3, "moved here", "x"), (5, "mine too", "x"), (9, "theirs", "x")]
    assert orders.rows() == orders.rows(store=".base") == expected
    assert fingerprint(orders.path) == before
