"""The engines of a stream: the light one, and Spark for tables and batches that need it (decision 160)."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import firn
import firn.drains
from firn.client import TableHandle
from firn.drains.drain import Drain
from firn.drains.engine import Engine, require_packages
from firn.drains.errors import NeedsSpark
from firn.errors import FirnError
from firn.logs import LogBatch
from firn.protocol.answers.logs import LogOut
from firn.protocol.names import join_name
from firn.protocol.streams import StreamLease
from firn.spark.log_drain import LogDrain
from firn.spark.sessions import client_of
from firn.spark.target import load_target
from optimizer.client import ServerApi
from optimizer.credentials import DELEGATION_HEADER, build_stream_headers
from optimizer.spark import STREAM_CATALOG, SparkProcess, open_stream_session
from optimizer.stream_keeper import StreamKeeper
from optimizer.stream_writer import build_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_BATCHES_IN_SPARK = 64
"""After a batch that needed Spark, so many more go there at most before the light engine tries again."""


@dataclass
class DrainEngines:
    """The drain of one lease. Each change of the engine is a new copy at the quarantine, as a new process would be."""

    api: ServerApi
    spark: SparkProcess
    lease: StreamLease
    keeper: StreamKeeper
    engine: Engine
    _drain: Drain | None = None
    _added: list[str] = field(default_factory=list)
    _session: SparkSession | None = None
    _handle: TableHandle | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _is_for_good: bool = False
    """Whether the whole attempt runs in Spark."""
    _pause: int = 1
    """Batches in Spark after the next one that needs it."""
    _left: int = 0
    """Batches that go to Spark before the light engine tries again."""

    def __enter__(self) -> Self:
        if self.engine is Engine.SPARK:
            self._enter_spark("the optimizer was started with --drain-engine spark", is_for_good=True)
            return self
        try:
            require_packages()
        except NeedsSpark as why:
            self._turn_to_spark(why)
        else:
            self._enter_light()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def current(self) -> Drain:
        """The drain of the engine that runs now."""
        if self._drain is None:
            raise RuntimeError("the engines have not been entered")
        return self._drain

    @property
    def added_columns(self) -> list[str]:
        """The columns that the table got in this attempt, whatever engine has found them."""
        return self._added

    def look(self) -> LogOut:
        """As `Drain.look`."""
        return self.current.look()

    def plan(self, log: LogOut) -> LogBatch | None:
        """As `Drain.plan`."""
        return self.current.plan(log)

    def commit(self, log: LogOut, batch: LogBatch) -> LogBatch:
        """As `Drain.commit`, in Spark if the light engine says that it cannot."""
        if isinstance(self.current, LogDrain):
            return self._commit_in_spark(self.current, log, batch)
        try:
            committed = self.current.commit(log, batch)
        except NeedsSpark as why:
            drain = self._turn_to_spark(why)
            planned = drain.plan(log)  # Spark may end the batch before a truncate
            return self._commit_in_spark(drain, log, planned or batch)
        self._pause = 1
        return committed

    def _commit_in_spark(self, drain: LogDrain, log: LogOut, batch: LogBatch) -> LogBatch:
        drain.target = load_target(drain.spark, drain.target.name)  # somebody may have added a column
        committed = drain.commit(log, batch)
        self._left -= 1
        if not self._is_for_good and self._left < 0:
            self._enter_light()
        return committed

    def _turn_to_spark(self, why: NeedsSpark) -> LogDrain:
        if self.engine is Engine.LIGHT:
            raise FirnError(
                f"this optimizer drains without Spark only: {why.message}",
                hint="start an optimizer with --drain-engine auto",
            )
        self._left, self._pause = self._pause - 1, min(2 * self._pause, MOST_BATCHES_IN_SPARK)
        return self._enter_spark(why.message, is_for_good=why.is_of_table)

    def _enter_light(self) -> None:
        lease, handle = self.lease, self._find_handle()
        headers = {DELEGATION_HEADER: "", **build_stream_headers(lease)}  # PyIceberg would ask for credentials itself
        self._drain = firn.drains.LightDrain(
            stores=firn.drains.StoreLoader(handle, headers),
            handle=handle,
            writer=build_writer(lease),
            table=lease.table,
            password=lease.password,
            check=self.keeper.check,
            stream_lease=lease.lease,
        )
        self._drain.new_columns.added = self._added
        self.keeper.tell_engine(Engine.LIGHT, None)

    def _find_handle(self) -> TableHandle:
        """The table, by a client that lives as long as the attempt."""
        if self._handle is None:
            lease = self.lease
            client = firn.connect(self.api.url, token=self.api.token, catalog=lease.catalog)
            self._stack.callback(client.close)
            self._handle = client.tables[join_name([lease.catalog, *lease.namespace, lease.name])]
        return self._handle

    def _enter_spark(self, why: str, *, is_for_good: bool) -> LogDrain:
        self._is_for_good = is_for_good
        self.keeper.tell_engine(Engine.SPARK, why)
        session = self._open_session()
        lease, table = self.lease, join_name([STREAM_CATALOG, *self.lease.namespace, self.lease.name])
        client, name = client_of(session, table)
        drain = LogDrain(
            session,
            client.tables[name],
            load_target(session, table),
            build_writer(lease),
            lease.password,
            check=self.keeper.check,
            table=lease.table,
            stream_lease=lease.lease,
        )
        drain.new_columns.added = self._added
        self._drain = drain
        return drain

    def _open_session(self) -> SparkSession:
        if self._session is None:
            tag = f"{self.lease.stream_id}-{self.lease.attempt}"
            opened = open_stream_session(self.spark.session, self.api, self.lease, tag)
            session = self._session = self._stack.enter_context(opened)
            self.keeper.interrupt = lambda: session.sparkContext.cancelJobsWithTag(tag)
        return self._session
