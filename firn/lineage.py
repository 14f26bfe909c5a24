"""The lineage of a table: `client.tables["db.orders"].lineage()`."""

from __future__ import annotations

from abc import ABC, abstractmethod

from firn.protocol.lineage import DEFAULT_DEPTH, Direction, TableLineageGraphOut
from firn.transport import Json, Transport


class TableLineage(ABC):
    """The methods of a table's handle that have to do with its lineage."""

    __slots__ = ()
    transport: Transport

    @abstractmethod
    def path_to(self, part: str) -> str:
        """The address of one of the table's parts."""

    def lineage(
        self, *, direction: Direction | str = Direction.BOTH, depth: int = DEFAULT_DEPTH, column: str | None = None
    ) -> TableLineageGraphOut:
        """Which tables, views, pipelines, jobs and engines it comes from, and which read it, up to `depth` steps away.

        With `column` the graph has only what concerns this column. See docs/lineage.md.
        """
        params: dict[str, Json] = {"direction": str(direction), "depth": depth, "column": column}
        return TableLineageGraphOut.read(self.transport.get(self.path_to("/lineage"), params))
