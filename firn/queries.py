"""SQL that the server answers: `client.sql("SELECT …")`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from firn.errors import FirnError, Refused
from firn.transport import Json, Transport

if TYPE_CHECKING:
    import pyarrow as pa

_WAIT_SECONDS = 10
_ACTIVE = ("queued", "running")


class QueryFailed(Refused):
    """The server could not answer a statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    """The rows of a statement, with their values as text; `columns` are names and types in the words of DuckDB."""

    id: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[str | None]]
    truncated: bool
    """Whether the server left out rows."""
    notes: Sequence[str]
    """What a reader should know, such as that a table's newest commits are not merged yet."""
    transport: Transport

    def to_arrow(self) -> pa.Table:
        """The rows with their types, from the server's Parquet file; it keeps them for an hour. Needs PyArrow."""
        try:
            import pyarrow as pa  # noqa: PLC0415  # an extra, and its import is slow
            import pyarrow.parquet as pq  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise FirnError("PyArrow is not installed", hint="pip install 'firn[scan]'") from error
        return pq.read_table(pa.BufferReader(self.transport.get_bytes(f"/queries/{quote(self.id)}/parquet")))


def run_query(
    transport: Transport,
    statement: str,
    *,
    catalog: str,
    namespace: str = "",
    limit: int = 1_000,
    snapshot: str | None = None,
    engine: str = "instant",
) -> QueryResult:
    """Run a statement, and wait for its rows. An interruption cancels it. QueryFailed says why it has no result."""
    body: Json = {"statement": statement, "catalog": catalog, "namespace": namespace, "limit": limit}
    if engine != "instant":  # servers of an earlier version know no other
        body["engine"] = engine
    query = transport.change("POST", "/queries", {**body, "snapshot": snapshot, "wait": _WAIT_SECONDS})
    path = f"/queries/{quote(query['id'])}"
    try:
        while query["state"] in _ACTIVE:
            query = transport.get(path, {"wait": _WAIT_SECONDS})
    except KeyboardInterrupt:
        with suppress(FirnError):
            transport.change("DELETE", path)
        raise
    if query["state"] != "done":
        raise QueryFailed(query["message"] or f"the query is {query['state']}", hint=query["hint"])
    rows: list[Sequence[str | None]] = []
    page: int | None = 0
    while page is not None and query["rows"]:
        read = transport.get(f"{path}/rows", {"page": page})
        rows += read["rows"]
        page = read["next_page"]
    columns = [(column["name"], column["type"]) for column in query["columns"]]
    return QueryResult(
        id=query["id"],
        columns=columns,
        rows=rows,
        truncated=query["truncated"],
        notes=query["notes"],
        transport=transport,
    )
