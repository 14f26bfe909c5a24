"""Counts duplicate keys of a Hive table that is not upgraded, with the engine of queries, in bounded memory.

The check registers the files in metadata of its own, as an upgrade does, and removes it at the end: no table appears.
The engine then counts a part of the keys at a time, chosen by their hash, so memory bounds the number of passes over
the key columns and not the number of rows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from catalog.errors import Conflict, Invalid
from catalog.iceberg.json import Json
from catalog.ports.queries import QueryCanceled, QueryEngine
from firn.protocol.locations import lies_in, normalize_location
from firn.protocol.tasks.query import QueryLimits, QueryMessage, QueryTable, QueryTask
from server.service.hive.upgrade_attempt import COUNTING, UpgradeAttempt

BYTES_PER_ROW = 160
"""Memory for a group of a hash table, as DuckDB needs it for two columns of short texts."""
MOST_PASSES = 32
MOST_KEYS = 20
"""The number of keys in a result, those with the most rows first."""
LONGEST_VALUE = 200
_STEP_SECONDS = 1.0
_VIEW = "hive_table"
_ROWS = '"firn.rows"'
"""The rows of a key, under a name that no column of Hive has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedFiles:
    """The files of a count, as one snapshot."""

    name: str
    metadata_location: str
    snapshot_id: int | None
    rows: int
    """By their footers."""
    directories: Sequence[str]
    """Where the files lie; the engine opens no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCount:
    """The numbers of all passes together."""

    rows: int
    null_rows: int
    """Rows with a null in a key column: they have no key."""
    keys: int = 0
    """Keys with more than one row."""
    surplus_rows: int = 0
    """Rows of these keys, without one of each."""
    sample: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """Some of the keys as texts, each with its number of rows."""

    def to_json(self, columns: Sequence[str]) -> Json:
        """As an operation keeps it."""
        sample = [{"rows": rows, "key": dict(zip(columns, key, strict=True))} for rows, key in self.sample]
        numbers = {name: getattr(self, name) for name in ("rows", "null_rows", "keys", "surplus_rows")}
        return {"columns": [*columns], **numbers, "sample": sample}


@dataclass(frozen=True)
class KeyCounter:
    """Runs one count at a time; the process of the engine ends with it."""

    start_engine: Callable[[], QueryEngine]
    limits: QueryLimits
    file_io: dict[str, str]
    enabled: bool
    """Whether this server reads rows for people."""
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def count(self, attempt: UpgradeAttempt, files: CountedFiles, columns: Sequence[str]) -> KeyCount:
        """Count all keys. Invalid with the reason if the server cannot, Conflict if the files have changed meanwhile.

        Raises what a step of the attempt raises when somebody cancels or pauses it.
        """
        if not self.enabled:
            raise Invalid("reading rows is switched off on this server (queries.enabled)")
        passes = self._count_passes(files.rows)
        if files.snapshot_id is None:
            return KeyCount(rows=0, null_rows=0)
        while not self._turn.acquire(timeout=_STEP_SECONDS):
            attempt.step(COUNTING, 0, files.rows)
        engine = self.start_engine()
        try:
            return _Count(self, engine, attempt, files, columns).run(passes)
        finally:
            engine.stop()
            self._turn.release()

    def _count_passes(self, rows: int) -> int:
        rows_at_once = max(1, self.limits.memory_bytes // 2 // BYTES_PER_ROW)
        passes = -(-rows // rows_at_once) or 1
        if passes > MOST_PASSES:
            most = rows_at_once * MOST_PASSES
            raise Invalid(f"the table has {rows:,} rows, and this server counts the keys of {most:,} at most")
        return passes


@dataclass
class _Count:
    """One count, pass by pass."""

    counter: KeyCounter
    engine: QueryEngine
    attempt: UpgradeAttempt
    files: CountedFiles
    columns: Sequence[str]
    _done: float = 0.0
    """The part of the work that is done."""
    _stepped: float = 0.0
    _stopped: Exception | None = None

    def run(self, passes: int) -> KeyCount:
        """Count the rows, then the keys of each pass."""
        quoted = [quote_column(column) for column in self.columns]
        any_null = " OR ".join(f"{name} IS NULL" for name in quoted)
        rows_query = f"SELECT count(*), count(*) FILTER (WHERE {any_null}) FROM {_VIEW}"  # noqa: S608 -- names are quoted
        [[rows, null_rows]] = self._ask(rows_query, 0)
        if int(rows or 0) != self.files.rows:
            raise Conflict(
                f"{self.files.name} is being written: {rows} rows were read, and the footers counted {self.files.rows}",
                hint="count again when its writers pause",
            )
        count = KeyCount(rows=int(rows or 0), null_rows=int(null_rows or 0))
        for number in range(passes):
            count = self._add_pass(count, quoted, number, passes)
        return count

    def _add_pass(self, count: KeyCount, quoted: Sequence[str], number: int, passes: int) -> KeyCount:
        names = ", ".join(quoted)
        has_key = " AND ".join(f"{name} IS NOT NULL" for name in quoted)
        part = f" AND hash({names}) % {passes} = {number}" if passes > 1 else ""
        groups = f"SELECT {names}, count(*) AS {_ROWS} FROM {_VIEW} WHERE {has_key}{part} GROUP BY {names}"  # noqa: S608 -- names are quoted
        repeated = f"{groups} HAVING count(*) > 1"
        totals = f"SELECT count(*), coalesce(sum({_ROWS} - 1), 0) FROM ({repeated})"  # noqa: S608 -- names are quoted
        [[keys, surplus]] = self._ask(totals, (number + 1) / (passes + 1))
        if not int(keys or 0):
            return count
        texts = ", ".join(f"left(CAST({name} AS VARCHAR), {LONGEST_VALUE})" for name in quoted)
        order = f"ORDER BY {_ROWS} DESC, {names} LIMIT {MOST_KEYS}"
        largest = f"SELECT {_ROWS}, {texts} FROM ({repeated}) {order}"  # noqa: S608 -- names are quoted
        rows = self._ask(largest, (number + 1) / (passes + 1))
        sample = [*count.sample, *((int(row[0] or 0), tuple(text or "" for text in row[1:])) for row in rows)]
        return replace(
            count,
            keys=count.keys + int(keys or 0),
            surplus_rows=count.surplus_rows + int(surplus or 0),
            sample=tuple(sorted(sample, key=lambda row: (-row[0], row[1]))[:MOST_KEYS]),
        )

    def _ask(self, statement: str, done: float) -> list[list[str | None]]:
        """The rows of a statement, which the server has made itself."""
        self._done = done
        rows: list[list[str | None]] = []

        def take(message: QueryMessage) -> None:
            if message.page is not None:
                rows.extend(message.page.rows)

        table = QueryTable(
            view=_VIEW,
            name=self.files.name,
            metadata=self.files.metadata_location,
            snapshot_id=self.files.snapshot_id,
            columns=[column.casefold() for column in self.columns],
        )
        task = QueryTask(
            statement=statement,
            tables=[table],
            limits=self.counter.limits,
            export=False,
            file_io=self.counter.file_io,
        )
        try:
            self.engine.run(task, self._check_files, take, self._is_stopped)
        except QueryCanceled:
            if self._stopped is not None:
                raise self._stopped from None
            raise
        return rows

    def _check_files(self, _view: str, files: Sequence[str]) -> None:
        """Refuse files elsewhere, whatever the manifests say."""
        allowed = [normalize_location(place) for place in (self.attempt.root, *self.files.directories)]
        for file in files:
            if not any(lies_in(normalize_location(file), place) for place in allowed):
                raise Invalid(f"{self.files.name} names a file outside of its directories")

    def _is_stopped(self) -> bool:
        """Store the progress once a second; True if the attempt is not to go on."""
        if time.monotonic() - self._stepped < _STEP_SECONDS:
            return False
        self._stepped = time.monotonic()
        try:
            self.attempt.step(COUNTING, int(self._done * self.files.rows), self.files.rows)
        except Exception as error:  # noqa: BLE001 -- raised again by the caller, when the engine has ended
            self._stopped = error
            return True
        return False


def quote_column(name: str) -> str:
    """The name of a column in SQL of DuckDB."""
    return '"' + name.replace('"', '""') + '"'


def describe_count(count: KeyCount, columns: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Describe a count as checks: code, status and message."""
    key = f"({', '.join(columns)})"
    if count.null_rows:
        yield "key_null", "blocked", f"{count.null_rows:,} of {count.rows:,} rows have a null in {key}"
    if count.surplus_rows:
        rows = "1 duplicate row" if count.surplus_rows == 1 else f"{count.surplus_rows:,} duplicate rows"
        keys = "1 key occurs" if count.keys == 1 else f"{count.keys:,} keys occur"
        yield "key_duplicates", "blocked", f"{rows}: {keys} more than once in {count.rows:,} rows by {key}"
    if not count.null_rows and not count.surplus_rows:
        yield "key", "ok", f"all {count.rows:,} rows were read: each has its own key {key}, without nulls"
