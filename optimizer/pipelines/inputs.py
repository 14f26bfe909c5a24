"""The inputs of a run at their pins: the four relations of each that the SQL of a plan reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.errors import Refused as FirnRefused
from firn.protocol.answers.changes import ChangePlan, FileChangesOut
from firn.protocol.names import join_name, quote_name, split_name
from firn.protocol.pipeline_pins import InputPin
from firn.protocol.pipelines import InputChanges
from firn.spark.changes import Feed, plan_feed
from firn.spark.file_changes import read_net_rows, read_signed_rows
from optimizer.pipelines.lake import Lake
from optimizer.pipelines.snapshots import (
    count_commits,
    find_schema_difference,
    load_iceberg_table,
    read_snapshot,
    read_total_bytes,
)

BEGINNING = "0"
"""The state of a table before its first commit, as the server's plans of changes name it."""
BASE, CHANGE = "base", "change"
"""The last parts of the names of a keyed table's stores."""


@dataclass(frozen=True)
class StateRead:
    """A state of an Iceberg table that a run opens, by the parts of its name in the catalog; None is the head."""

    parts: tuple[str, ...]
    snapshot_id: int | None


@dataclass(frozen=True)
class ChangedRows:
    """Rows that only one of two states has. `frame` has them as structs `row`, with `n` below 0 for the old state."""

    frame: DataFrame

    @property
    def before(self) -> DataFrame:
        """Those of the old state."""
        return self._read("n < 0")

    @property
    def after(self) -> DataFrame:
        """Those of the new state."""
        return self._read("n > 0")

    def _read(self, condition: str) -> DataFrame:
        return self.frame.where(condition).select("row.*")


class PinnedInput(Protocol):
    """A table at its pins. A run without an old checkpoint has no old state."""

    def read_new(self) -> DataFrame:
        """All rows at the new pin."""

    def read_old(self) -> DataFrame:
        """All rows at the old pin."""

    def read_changed(self, columns: Sequence[str], *, is_net: bool = True) -> ChangedRows:
        """The rows that only the old, and those that only the new state has, by these columns alone.

        If they need not be net, both may have some equal rows, each as often: then nothing is compared.
        """

    def list_states(self) -> list[StateRead]:
        """The Iceberg tables and snapshots that the new state consists of."""

    def find_obstacle(self, columns: Sequence[str]) -> str | None:
        """Why the old state cannot be read as the query reads the new one; None if it can."""

    def measure(self) -> tuple[int, int]:
        """Bytes of the files that differ between the pins, and of all files at the new pin."""

    def hides_rows(self) -> bool:
        """Whether readers do not see rows that are too old, so that rows vanish without a commit."""

    def count_changes(self) -> InputChanges:
        """The changes between the pins for people, as far as they are known without reading rows."""


@dataclass(frozen=True)
class KeyedInput:
    """A keyed table at two versions."""

    lake: Lake
    name: str
    since: str | None
    until: str | None

    @cached_property
    def plan(self) -> ChangePlan:
        """The server's plan of the changes."""
        since, until = int(self.since or BEGINNING), int(self.until or BEGINNING)
        return plan_feed(
            self.lake.client, self.lake.path(self.name), join_name(self.lake.parts(self.name)), since, until
        )

    def _feed(self, columns: Sequence[str]) -> Feed:
        plan = self.plan.model_copy(update={"columns": list(columns)})
        return Feed(self.lake.spark, self.lake.parts(self.name), plan)

    def read_new(self) -> DataFrame:
        """The merged rows at the new version."""
        return self.lake.spark.sql(self.plan.until.sql or "")

    def read_old(self) -> DataFrame:
        """The merged rows at the old version, with the columns of now."""
        return self.lake.spark.sql(self.plan.since.sql or "")

    def read_changed(self, columns: Sequence[str], *, is_net: bool = True) -> ChangedRows:  # noqa: ARG002 -- they are
        """The rows of the keys whose rows differ in these columns."""
        feed = self._feed(columns)
        net = feed.compare(self.plan.since, self.plan.until, feed.list_changed_keys())
        sides = F.array(*(_pack_side(side, number, columns) for side, number in (("before", -1), ("after", 1))))
        changed = net.select(F.explode(F.filter(sides, lambda side: side.isNotNull())).alias("side"))
        return ChangedRows(changed.select("side.row", "side.n"))

    def read_new_keys(self, columns: Sequence[str]) -> DataFrame:
        """The rows of the keys that only the new version has."""
        feed = self._feed(columns)
        net = feed.compare(self.plan.since, self.plan.until, feed.list_changed_keys())
        gained = net.where(F.col("before").isNull() & F.col("after").isNotNull())
        return gained.select(*(F.col("after").getField(name).alias(name) for name in columns))

    def list_states(self) -> list[StateRead]:
        """Both stores at the new version."""
        until, parts = self.plan.until, split_name(self.name)
        stores = ((BASE, until.base_snapshot_id), (CHANGE, until.change_snapshot_id))
        return [StateRead((*parts, store), int(snapshot)) for store, snapshot in stores if snapshot is not None]

    def find_obstacle(self, columns: Sequence[str]) -> str | None:  # noqa: ARG002 -- other inputs need them
        """None: the server's plan reads old versions with the columns of now."""
        return None

    def measure(self) -> tuple[int, int]:
        """The pending changes, of which the new ones are a part; and both stores."""
        shown = self.lake.table(self.name).show()
        return (shown.pending_bytes, shown.bytes + shown.pending_bytes)

    def hides_rows(self) -> bool:
        """Whether the table has a time to live."""
        return self.lake.table(self.name).show().hides is not None

    def count_changes(self) -> InputChanges:
        """The commits that change rows."""
        commits = len(self.plan.appends) + len(self.plan.direct) if self.plan.base_known else None
        return InputChanges(table=self.name, commits=commits)


def _pack_side(side: str, number: int, columns: Sequence[str]) -> Column:
    """A struct of the row of one side and of its number; null if this side has no row."""
    row = F.struct(*(F.col(side).getField(name).alias(name) for name in columns))
    return F.when(F.col(side).isNotNull(), F.struct(row.alias("row"), F.lit(number).alias("n")))


@dataclass(frozen=True)
class PlainInput:
    """A table without a key at two snapshots."""

    lake: Lake
    name: str
    since: str | None
    until: str | None

    @cached_property
    def files(self) -> FileChangesOut:
        """The server's list of the files that differ."""
        return self.lake.table(self.name).changed_files(since=self.since or BEGINNING, until=self.until or BEGINNING)

    def read_new(self) -> DataFrame:
        """The rows of the new snapshot."""
        return read_snapshot(self.lake.spark, self.lake.parts(self.name), self.until)

    def read_old(self) -> DataFrame:
        """The rows of the old snapshot."""
        return read_snapshot(self.lake.spark, self.lake.parts(self.name), self.since)

    def read_changed(self, columns: Sequence[str], *, is_net: bool = True) -> ChangedRows:
        """The changes, from the files that differ."""
        if self.until is None:  # the server lists no changes towards a table without snapshots
            row = F.struct(*map(quote_name, columns)).alias("row")
            return ChangedRows(self.read_old().select(row, F.lit(-1).alias("n")))
        files = self.files.model_copy(update={"columns": list(columns)})
        spark, name = self.lake.spark, join_name(self.lake.parts(self.name))
        signed = None if is_net else read_signed_rows(spark, name, files)
        return ChangedRows(read_net_rows(spark, name, files) if signed is None else signed)

    def list_states(self) -> list[StateRead]:
        """The table at the new snapshot."""
        return [] if self.until is None else [StateRead(split_name(self.name), int(self.until))]

    def find_obstacle(self, columns: Sequence[str]) -> str | None:
        """A column that the table did not have in this form at the old snapshot, or too many changed files."""
        difference = find_schema_difference(self.lake.spark, self.lake.parts(self.name), self.since, columns)
        if difference is not None or self.until is None or self.since == self.until:
            return difference
        try:
            self.files  # noqa: B018 -- the server refuses to list very many
        except FirnRefused as refused:
            return refused.message
        return None

    def measure(self) -> tuple[int, int]:
        """The sizes that the server's list and the snapshot's summary tell."""
        total = read_total_bytes(self.lake.spark, self.lake.parts(self.name), self.until)
        if self.since is None or self.until is None:
            return total, total
        return total if self._changed_files is None else _sum_bytes(self._changed_files), total

    def hides_rows(self) -> bool:
        """No: a table without a key shows all rows."""
        return False

    def count_changes(self) -> InputChanges:
        """The commits, and the files that differ."""
        commits = count_commits(self.lake.spark, self.lake.parts(self.name), self.since, self.until)
        files = None if self.until is None else self._changed_files
        if files is None:
            return InputChanges(table=self.name, commits=commits)
        return InputChanges(table=self.name, commits=commits, files=len(files.files), bytes=_sum_bytes(files))

    @property
    def _changed_files(self) -> FileChangesOut | None:
        """The files that differ; None if they are too many to list."""
        try:
            return self.files
        except FirnRefused:
            return None


def _sum_bytes(changes: FileChangesOut) -> int:
    sides = [side for change in changes.files for side in (change.before, change.after) if side is not None]
    return sum(int(side.data_file.get("file-size-in-bytes", 0)) for side in sides)


def open_input(lake: Lake, pin: InputPin, since: str | None) -> PinnedInput:
    """An input at its new pin, and at the version `since`."""
    if pin.keyed:
        return KeyedInput(lake, pin.table, since, pin.version)
    # The session may know an older state, without the pinned snapshot.
    load_iceberg_table(lake.spark, lake.parts(pin.table)).refresh()
    return PlainInput(lake, pin.table, since, pin.version)


def list_changed(since: Sequence[InputPin], until: Sequence[InputPin]) -> list[str]:
    """The inputs whose pins differ."""
    old = {pin.table: pin.version for pin in since}
    return [pin.table for pin in until if pin.table not in old or old[pin.table] != pin.version]
