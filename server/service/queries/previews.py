"""The first rows of a table, for the console: read at once, by a process that no query keeps waiting."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from catalog.errors import Unavailable
from catalog.ports.queries import QueryEngine
from catalog.queries.query import QueriedTable, ResultColumn
from firn.protocol.tasks.query import QueryMessage, QueryTask
from server.service.queries.parsing import VIEW, NamedTable
from server.service.queries.queries import Queries
from server.service.queries.query_tables import PlannedTable, check_files

MOST_ROWS = 500
MOST_WAITING = 4
"""Requests that may wait for the process at one time; each keeps a thread of the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Rows of a table at a snapshot, in no particular order."""

    snapshot_id: int | None
    columns: list[ResultColumn]
    rows: list[list[str | None]]
    truncated: bool
    notes: list[str]


@dataclass(frozen=True)
class Previews:
    """Reads previews."""

    queries: Queries
    engine: QueryEngine
    file_io: Mapping[str, str]
    _waiting: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(MOST_WAITING))

    def read(self, table: QueriedTable, *, snapshot: str | None, rows: int) -> Preview:
        """Read the first rows of a table. Errors as those of a query with this table."""
        self.queries.check_enabled()
        named = NamedTable((*table.name.namespace, table.name.name), version=snapshot)
        planned = self.queries.tables.plan_table(table, named, VIEW.format(0))
        if not self._waiting.acquire(blocking=False):
            raise Unavailable("the server is reading rows for others", hint="Try again in a few seconds.")
        try:
            return self._read(planned, rows)
        finally:
            self._waiting.release()

    def _read(self, planned: PlannedTable, rows: int) -> Preview:
        most = min(rows, MOST_ROWS)
        task = QueryTask(
            statement=f"SELECT * FROM {planned.table.view} LIMIT {most + 1}",  # noqa: S608 -- our own name
            tables=[planned.table],
            limits=self.queries.bounds.limits.model_copy(update={"rows": most}),
            export=False,
            file_io=dict(self.file_io),
        )
        columns, shown, truncated = list[ResultColumn](), list[list[str | None]](), False

        def take(message: QueryMessage) -> None:
            nonlocal truncated
            columns.extend(ResultColumn(column.name, column.type) for column in message.columns or ())
            shown.extend([] if message.page is None else message.page.rows)
            truncated = message.done is not None and message.done.truncated

        self.engine.run(task, check_files([planned]), take, lambda: False)
        return Preview(
            snapshot_id=planned.table.snapshot_id,
            columns=columns,
            rows=shown,
            truncated=truncated,
            notes=[] if planned.note is None else [planned.note],
        )

    def end_idle(self) -> int:
        """End the processes, also those of queries, that nobody has used for a while; returns their number."""
        return sum(engine.end_if_idle() for engine in (*self.queries.engines, self.engine))

    def stop(self) -> None:
        """End the process."""
        self.engine.stop()
