"""The management API of a server, in Python.

    client = firn.connect("http://127.0.0.1:8630")
    client.tables["db.orders"].start_job("merge")
    client.scan("lake.db.orders", filter="day = '2026-11-21'").to_arrow()

A table is named `db.orders` in the client's default catalog, or `lake.db.orders`: where a name has three or more parts
and the first is one of the server's catalogs, it is that catalog.  A part that holds a dot stands between backticks, as
in Spark SQL.  Every method may raise a firn.errors.FirnError.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import quote

import httpx

import firn.scan
from firn.access import Access
from firn.auto_sync import AutoSync, sync_from_hive
from firn.catalogs import Catalogs
from firn.connections import Connections
from firn.dropped import DroppedList, Namespaces
from firn.errors import Invalid
from firn.groups import Groups
from firn.hive import Hive
from firn.imports import Imports
from firn.jobs import Jobs, Operations
from firn.names import Name, split_name
from firn.notifications import Notifications
from firn.pipeline_client import Pipelines
from firn.protocol.answers.jobs import JobOut
from firn.protocol.answers.tables import TableOut, TableRow
from firn.protocol.names import join_name
from firn.protocol.search import SearchHit, SearchKind
from firn.protocol.trends import Measure, TrendOut
from firn.queries import QueryResult, run_query
from firn.scan_extra import require_scan
from firn.search import search
from firn.streams import Streams
from firn.table_handle import TableHandle
from firn.token_source import read_token
from firn.transport import Json, Transport
from firn.trends import load_trends

DEFAULT_URL = "http://127.0.0.1:8630"
DEFAULT_CATALOG = "lake"
_SHORTEST_QUALIFIED = 3


def connect(
    url: str | None = None,
    *,
    token: str | None = None,
    catalog: str = DEFAULT_CATALOG,
    transport: httpx.BaseTransport | None = None,
) -> Client:
    """A client of the server at `url`, by default at $FIRN_SERVER or on this machine, with the token of $FIRN_TOKEN or
    of the file $FIRN_TOKEN_FILE.

    Nothing is sent yet. Raises Invalid if that file cannot be read.
    """
    address = (url or os.environ.get("FIRN_SERVER") or DEFAULT_URL).rstrip("/")
    token = token or read_token()
    return Client(Transport(address, token=token, transport=transport), token=token, catalog=catalog)


class Client:
    """One server.  Safe to share between threads."""

    def __init__(self, transport: Transport, *, token: str | None, catalog: str) -> None:
        self.transport = transport
        self.token = token
        self.catalog = catalog
        self.catalogs = Catalogs(transport)
        self.jobs = Jobs(transport)
        self.operations = Operations(transport)
        self.groups = Groups(transport)
        self.connections = Connections(transport)
        self.notifications = Notifications(transport)
        self.streams = Streams(transport)
        self.pipelines = Pipelines(transport)
        self.tables = Tables(self)
        self.hive = Hive(self)
        self.dropped = DroppedList(self)
        self.namespaces = Namespaces(self)
        self.imports = Imports(transport)
        self.access = Access(transport)
        self._known_catalogs: frozenset[str] = frozenset()

    @property
    def url(self) -> str:
        """The server's address."""
        return self.transport.url

    def name(self, text: str) -> Name:
        """A table's name as people type it."""
        parts = split_name(text)
        if len(parts) < _SHORTEST_QUALIFIED - 1:
            raise Invalid(f"{text!r} names no table", hint="write NAMESPACE.TABLE or CATALOG.NAMESPACE.TABLE")
        if len(parts) >= _SHORTEST_QUALIFIED and self.is_catalog(parts[0]):
            return Name(parts[0], join_name(parts[1:]))
        return Name(self.catalog, join_name(parts))

    def scan(
        self,
        table: str,
        *,
        filter: str | None = None,
        columns: Sequence[str] | None = None,
        auto_sync: AutoSync | str = AutoSync.NONE,
        log: bool = False,
    ) -> firn.scan.Scan:
        """Merged rows as Arrow, without Spark; nothing is read before `to_arrow()`.

        With `auto_sync` a table over a Hive table is brought up to it before each reading: `metadata` takes over its
        columns, `data` also its files. With `log` the rows include the committed records of the table's log that no
        drain has brought yet; this reads both stores of the table and merges in this process. See `firn.scan.LogScan`.
        """
        require_scan()
        name = self.name(table)
        source = firn.scan.Served(transport=self.transport, token=self.token, catalog=name.catalog, table=name.table)
        sync, selected = AutoSync(auto_sync), None if columns is None else tuple(columns)

        def before() -> None:
            sync_from_hive(self, str(name), sync)

        if not log:
            return firn.scan.Scan(source=source, filter=filter, columns=selected, before=before)
        table_log = self.tables[str(name)].log
        return firn.scan.LogScan(
            source=source, filter=filter, columns=selected, before=before, stores=source, log=table_log
        )

    def sql(
        self,
        statement: str,
        *,
        namespace: str = "",
        limit: int = 1_000,
        snapshot: str | None = None,
        engine: str = "instant",
    ) -> QueryResult:
        """Run a SELECT on the server, and wait for its rows. See docs/sql.md.

        The engine `instant` takes DuckDB's SQL; `spark` takes Spark's, and an optimizer answers it. Names with one part
        belong to `namespace`, and names without a catalog to the client's. Raises QueryFailed if the server cannot
        answer it.
        """
        return run_query(
            self.transport,
            statement,
            catalog=self.catalog,
            namespace=namespace,
            limit=limit,
            snapshot=snapshot,
            engine=engine,
        )

    def search(
        self, text: str, *, kinds: Collection[SearchKind | str] = (), catalog: str | None = None, limit: int = 10
    ) -> list[SearchHit]:
        """Find tables, columns, comments, jobs and more by words of their names, over all catalogs.

        `limit` holds for each kind. See docs/search.md.
        """
        return search(self.transport, text, kinds=kinds, catalog=catalog, limit=limit)

    def trends(
        self, name: str | None = None, *, measures: Collection[Measure | str] = (), since: str = "7 d"
    ) -> TrendOut:
        """Measures of a table, namespace or catalog over time; without a name, of the client's catalog.

        `since` is a duration, such as `24 h`, or a time with its zone. See docs/trends.md.
        """
        return load_trends(self, name, measures, since)

    def files(self, table: str) -> list[Json]:
        """Live data and delete files of a table, or of both stores of a keyed one."""
        require_scan()
        name = self.name(table)
        source = firn.scan.Served(transport=self.transport, token=self.token, catalog=name.catalog, table=name.table)
        return firn.scan.list_live_files(source)

    def start_job(self, table: str, kind: str, **options: Json) -> JobOut:
        """Start a maintenance job on a table now: `client.tables[table].start_job`, in one call."""
        return self.tables[table].start_job(kind, **options)

    def health(self) -> Json:
        """The server's version and how its background tasks are."""
        return self.transport.get("/health")

    def clusters(self) -> list[Json]:
        """The HDFS clusters under the catalogs: whether they answer, and until when the server has a ticket."""
        return [*self.transport.get("/hadoop")]

    def check_clusters(self) -> list[Json]:
        """Check every hop to every warehouse on HDFS; the server writes small files there and deletes them."""
        return [*self.transport.change("POST", "/hadoop/check")]

    def status(self) -> Json:
        """All background work at a glance."""
        return self.transport.get("/status")

    def optimizers(self) -> list[Json]:
        """Registered optimizers and what each does now."""
        return list(self.transport.items("/optimizers"))

    def drain_optimizer(self, optimizer: str, *, reason: str | None = None, stop: bool = False) -> Json:
        """Give it no new job; with `stop` it ends when it holds none."""
        return self.transport.change(
            "POST", f"/optimizers/{quote(optimizer, safe='')}/drain", {"reason": reason, "stop": stop}
        )

    def undrain_optimizer(self, optimizer: str) -> Json:
        """Give it jobs again."""
        return self.transport.change("POST", f"/optimizers/{quote(optimizer, safe='')}/undrain", {})

    def close(self) -> None:
        """Let connections go."""
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def is_catalog(self, name: str) -> bool:
        """Whether the server has a catalog of this name.

        Asked again for an unknown name: a catalog may have been created since.
        """
        if name != self.catalog and name not in self._known_catalogs:
            self._known_catalogs = frozenset(catalog.name for catalog in self.catalogs.list())
        return name == self.catalog or name in self._known_catalogs


@dataclass(frozen=True, slots=True)
class Tables:
    """Plain and keyed tables: `client.tables["db.orders"]`."""

    client: Client

    def __getitem__(self, name: str) -> TableHandle:
        return TableHandle(self.client.transport, self.client.name(name), self.client.token)

    def list(
        self,
        catalog: str | None = None,
        *,
        kind: str | None = None,
        namespace: str | None = None,
        search: str | None = None,
        health_below: int | None = None,
        sort: str | None = None,
        limit: int | None = None,
    ) -> Iterator[TableRow]:
        """Tables, page by page, by name or the worst by `health`, `size`, `files`, `pending`, `last_commit` first."""
        path = f"/catalogs/{_quoted(catalog or self.client.catalog)}/tables"
        params = {"kind": kind, "namespace": namespace, "search": search, "health_below": health_below, "sort": sort}
        documents = self.client.transport.items(path, params, limit=limit)
        return (TableRow.read(document) for document in documents)

    def create(
        self,
        name: str,
        columns: Sequence[Mapping[str, str | None]],
        *,
        primary_key: Sequence[str] = (),
        sequence_field: str | None = None,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> TableOut:
        """A table of columns `{"name": …, "type": …, "comment": …}`; with a primary key a keyed one."""
        parsed = self.client.name(name)
        body = {
            "name": parsed.table,
            "columns": [dict(column) for column in columns],
            "primary_key": list(primary_key),
            "sequence_field": sequence_field,
            "partition_by": list(partition_by),
            "properties": dict(properties or {}),
        }
        path = f"/catalogs/{_quoted(parsed.catalog)}/tables"
        return TableOut.read(self.client.transport.change("POST", path, body))


def _quoted(part: str) -> str:
    return quote(part, safe="")


__all__ = ["Catalogs", "Client", "Hive", "Name", "TableHandle", "Tables", "connect"]
