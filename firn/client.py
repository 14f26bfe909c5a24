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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import quote
from uuid import UUID

import httpx

import firn.scan
from firn.access import Access
from firn.auto_sync import AutoSync, sync_from_hive
from firn.catalogs import Catalogs
from firn.changes import Position, read_changes, write_position, write_range
from firn.connections import Connections
from firn.consumers import TableConsumers
from firn.dropped import DroppedList, Namespaces
from firn.errors import FirnError, Invalid
from firn.groups import Groups
from firn.history import TableHistory
from firn.hive import Hive
from firn.imports import Imports
from firn.jobs import Jobs, Operations
from firn.logs import TableLog
from firn.names import Name, split_name
from firn.pipeline_client import Pipelines
from firn.protocol.answers.blockers import TableBlockerOut
from firn.protocol.answers.changes import FileChangesOut
from firn.protocol.answers.dropped import DropOut
from firn.protocol.answers.health import TableHealthOut
from firn.protocol.answers.jobs import JobOut
from firn.protocol.answers.tables import NextOut, TableOut, TableRow
from firn.protocol.changes import Each, Images
from firn.protocol.names import join_name
from firn.queries import QueryResult, run_query
from firn.streams import Streams
from firn.table_jobs import TableJobs
from firn.token_source import read_token
from firn.transport import Json, Transport
from firn.writers import TableWriters

if TYPE_CHECKING:
    import pyarrow as pa

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
        if len(parts) >= _SHORTEST_QUALIFIED and self._is_catalog(parts[0]):
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
        _require_scan()
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
    ) -> QueryResult:
        """Run a SELECT in DuckDB's SQL on the server, and wait for its rows. See docs/sql.md.

        Names with one part belong to `namespace`, and names without a catalog to the client's. Raises QueryFailed if
        the server cannot answer it.
        """
        return run_query(
            self.transport, statement, catalog=self.catalog, namespace=namespace, limit=limit, snapshot=snapshot
        )

    def files(self, table: str) -> list[Json]:
        """Live data and delete files of a table, or of both stores of a keyed one."""
        _require_scan()
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

    def _is_catalog(self, name: str) -> bool:
        """Asked again for an unknown name: a catalog may have been created since."""
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


@dataclass(frozen=True, slots=True)
class TableHandle(TableHistory, TableJobs):
    """One table, by name; whether there is one shows when something is asked of it."""

    transport: Transport
    name: Name
    token: str | None = None

    def show(self) -> TableOut:
        """Everything about it."""
        return TableOut.read(self.get(""))

    def explain(self) -> NextOut:
        """A job that is due, or why none is."""
        return NextOut.read(self.get("/explain"))

    def health(self, *, measure: bool = False) -> TableHealthOut:
        """How far it is from having nothing to do, and what takes the points; with `measure` also the partitions' skew,
        for which the server reads the manifests.
        """
        return TableHealthOut.read(self.get("/health", {"measure": "true"} if measure else None))

    @property
    def consumers(self) -> TableConsumers:
        """The consumers of its changes."""
        return TableConsumers(self.transport, self.path_to("/consumers"))

    @property
    def writers(self) -> TableWriters:
        """The writers that record their positions in it."""
        return TableWriters(self.transport, self.path_to("/writers"))

    @property
    def log(self) -> TableLog:
        """Its log: a topic of Kafka whose records become changes."""
        return TableLog(self.transport, self.path_to("/log"))

    def changes(
        self,
        *,
        since: Position,
        until: Position | None = None,
        images: Images | str = Images.AFTER,
        each: Each | str = Each.NET,
    ) -> pa.Table:
        """The changes after version, time or consumer `since`, up to `until` or the newest version, without Spark.

        By default one *net* change for each key; `each="change"` gives every change that took effect. With
        `images="both"` each has the row before and after it. Refused if the history at `since` has expired; the error
        names the first version that is left. `firn.changes.read_version` tells up to which version the rows reach.
        """
        _require_scan()
        plan = self.get("/changes/plan", write_range(since, until, each))
        source = firn.scan.Served(
            transport=self.transport, token=self.token, catalog=self.name.catalog, table=self.name.table
        )
        return read_changes(source, plan, images=images, each=each)

    def changed_files(self, *, since: Position, until: Position | None = None) -> FileChangesOut:
        """The files of a table without a primary key that differ between two snapshots, with their deletes.

        `since` and `until` are snapshots, branches, tags or times; `since=0` is the empty table. For programs that
        compute the changes themselves: `firn.spark.read_changes` does.
        """
        end = None if until is None else write_position(until)
        return FileChangesOut.read(self.get("/changes/files", {"since": write_position(since), "until": end}))

    def blockers(self) -> list[TableBlockerOut]:
        """What keeps jobs from it now."""
        return [TableBlockerOut.read(document) for document in self.get("/blockers")]

    def block(self, reason: str, *, until: datetime, kinds: Sequence[str] = ()) -> TableBlockerOut:
        """Keep jobs of these kinds, or of any, from beginning; a running one goes on."""
        body = {"reason": reason, "until": until.isoformat(), "kinds": list(kinds)}
        return TableBlockerOut.read(self.transport.change("POST", self.path_to("/blockers"), body))

    def unblock(self, blocker: UUID | None = None) -> None:
        """Lift one blocker, or all of them."""
        params = {} if blocker is None else {"blocker": str(blocker)}
        self.transport.change("DELETE", self.path_to("/blockers"), params=params)

    def get(self, part: str, params: Mapping[str, str | int | None] | None = None) -> Json:
        """One of its parts: `/files`, `/snapshots`, `/versions`, `/policy`."""
        return self.transport.get(self.path_to(part), params)

    def jobs(self, limit: int | None = None) -> list[JobOut]:
        """Newest first."""
        return [JobOut.read(document) for document in self.transport.items(self.path_to("/jobs"), limit=limit)]

    def set_properties(self, updates: Mapping[str, str], removals: Sequence[str] = ()) -> TableOut:
        """Set and remove properties; policy settings are checked."""
        body = {"set": dict(updates), "remove": list(removals)}
        return TableOut.read(self.transport.change("PATCH", self.path_to("/properties"), body))

    def change_policy(self, updates: Mapping[str, str], removals: Sequence[str] = ()) -> Json:
        """Set and remove policy settings; the policy as it holds afterwards. Invalid for a key that is no setting."""
        body = {"set": dict(updates), "remove": list(removals)}
        return self.transport.change("PATCH", self.path_to("/policy"), body)

    def drop(self, *, purge: bool = False) -> DropOut:
        """Drop it, with its stores; while the catalog keeps it `client.dropped` brings it back.

        With `purge` its files are deleted after that.
        """
        return DropOut.read(self.transport.change("DELETE", self.path_to(""), params={"purge": purge}))

    def protect(self, *, protected: bool = True) -> Json:
        """Protect it against being dropped, or lift the protection."""
        return self.transport.change("POST", self.path_to("/protect" if protected else "/unprotect"))

    def register(self, metadata_location: str, *, overwrite: bool = False, dry_run: bool = False) -> Json:
        """Take over an existing Iceberg table by its current metadata file."""
        body = {"metadata_location": metadata_location, "overwrite": overwrite, "dry_run": dry_run}
        return self.transport.change("POST", self.path_to("/register"), body)

    def path_to(self, part: str) -> str:
        """The address of one of its parts."""
        return f"/catalogs/{_quoted(self.name.catalog)}/tables/{_quoted(self.name.table)}{part}"


def _require_scan() -> None:
    """Raise FirnError where Firn was installed without its extra `scan`."""
    if any(find_spec(package) is None for package in ("fastavro", "pyarrow", "pyiceberg")):
        raise FirnError("reading a table without Spark needs PyArrow and PyIceberg: pip install 'firn[scan]'")


def _quoted(part: str) -> str:
    return quote(part, safe="")


__all__ = ["Catalogs", "Client", "Hive", "Name", "TableHandle", "Tables", "connect"]
