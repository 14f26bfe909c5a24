"""The lists of Hive tables use indexes, as the query plans of SQLite tell: sorts of 100,000 tables take seconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import create_engine, event
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from catalog.hive.table_index import HiveTableFilter, HiveTableOrder, HiveTableState
from server.store.hive_rows import HiveTableRow
from server.store.hive_tables import SqlHiveTables
from server.store.session import ReadSession
from tests.factories import LAKE

ANY_HIVE = HiveTableFilter(state=HiveTableState.HIVE)


@dataclass
class Plans:
    """Lists Hive tables of an empty database, and returns how SQLite finds them."""

    connection: Connection
    statements: list[tuple[str, Any]]

    def explain(self, only: HiveTableFilter, order: HiveTableOrder = HiveTableOrder.NAME) -> str:
        self.statements.clear()
        with Session(self.connection) as session:
            SqlHiveTables(ReadSession(session)).list(LAKE, only, order=order, limit=10)
        statement, parameters = self.statements[0]
        return "\n".join(
            row[3] for row in self.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        )


@pytest.fixture
def plans() -> Iterator[Plans]:
    engine = create_engine("sqlite://")
    HiveTableRow.metadata.create_all(engine)
    statements: list[tuple[str, Any]] = []
    event.listen(engine, "before_cursor_execute", lambda *call: statements.append((call[2], call[3])))
    with engine.connect() as connection:
        yield Plans(connection, statements)
    engine.dispose()


@pytest.mark.parametrize("order", [HiveTableOrder.FORMAT, HiveTableOrder.WRITER, HiveTableOrder.BLOCKER])
@pytest.mark.parametrize("only", [HiveTableFilter(), ANY_HIVE, HiveTableFilter(search="orders")])
def test_no_order_by_a_text_needs_a_sort(plans: Plans, order: HiveTableOrder, only: HiveTableFilter) -> None:
    plan = plans.explain(only, order)
    assert f"ix_hive_table_{order}" in plan
    assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize("order", [order for order in HiveTableOrder if order.is_number])
def test_an_order_by_a_number_sorts_only_tables_with_the_same_number(plans: Plans, order: HiveTableOrder) -> None:
    plan = plans.explain(ANY_HIVE, order)
    assert f"ix_hive_table_{order}" in plan
    assert "TEMP B-TREE FOR ORDER BY" not in plan


@pytest.mark.parametrize(
    ("only", "index"),
    [
        (HiveTableFilter(format="orc"), "ix_hive_table_format (catalog=? AND format=?)"),
        (HiveTableFilter(writer="ann"), "ix_hive_table_writer (catalog=? AND writer=?)"),
        (HiveTableFilter(failed=True), "ix_hive_table_failed (catalog=?)"),
        (HiveTableFilter(out_of_sync=True), "SCAN hive_link USING INDEX ix_hive_link_out_of_sync"),
        (HiveTableFilter(state=HiveTableState.UPGRADING), "ix_operation_status (status=? AND catalog=? AND kind=?)"),
        (HiveTableFilter(state=HiveTableState.DOWNGRADING), "ix_operation_status (status=? AND catalog=? AND kind=?)"),
    ],
)
def test_a_filter_that_few_tables_match_begins_with_them(plans: Plans, only: HiveTableFilter, index: str) -> None:
    plan = plans.explain(only)
    assert index in plan
    if only.state is not None or only.out_of_sync:
        assert "CORRELATED" not in plan, "once for the query, not once for each table"
