"""Reads what speaks for a key of a Hive table that is not upgraded yet: a sample of footers, and of rows.

The process that answers SQL of people reads the rows, because a damaged or hostile file may take it much memory or end
it. It reads few rows of few files, and sends numbers alone to the server.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from catalog.errors import CatalogError, Invalid
from catalog.files.data_file import FileFormat, FileStats
from catalog.hive.key_suggestions import ColumnSample, FileSample, RowSample
from catalog.hive.listing import Listing
from catalog.hive.partition_names import NULL_NAME
from catalog.iceberg.json import Json
from catalog.ports.files import TableFiles
from catalog.ports.queries import QueryEngine
from firn.protocol.tasks.query import FirstRows, QueryLimits, QueryMessage, QueryTable, QueryTask, SampledFile
from server.service.hive.hive_state import Unit, formats_of, join
from server.service.hive.key_count import quote_column

MOST_FILES = 8
"""Footers of a sample. Each is one or two reads, and a check reads them while somebody waits."""

MOST_ROW_FILES = 4
"""Files of which rows are read: those whose footers could be read, spread over the partitions."""
ROWS_OF_A_FILE = 5_000
BYTES_OF_A_FILE = 16 * 2**20
SAMPLE_SECONDS = 10.0
"""For one table, with the start of the process: a check goes on without a sample that takes longer."""
MOST_WAITING = 16
"""Checks that may wait for the process at one time; others go on without a sample."""
_VIEW = "hive_rows"
_FILE = '"firn.file"'

_LITTLE_ENDIAN = ("int", "long", "date")
_WHOLE_DECIMAL = re.compile(r"decimal\(\d+, *0\)")


@dataclass(slots=True)
class FileSampler:
    """Chooses files evenly from listings of any length, in one pass and bounded memory."""

    chosen: list[tuple[str, Unit, FileFormat | None]] = field(default_factory=list)
    """Location, partition and, unless it is Parquet, format: up to twice as many as are read."""
    readable: list[tuple[str, Unit]] = field(default_factory=list)
    """The files whose footers `read` could read."""
    _step: int = 1
    _seen: int = 0

    def add(self, unit: Unit, listing: Listing) -> None:
        """Look at one more directory."""
        if unit.format is FileFormat.AVRO:  # it has neither footers nor bounds
            return
        for file in listing.files:
            if self._seen % self._step == 0:
                self._take(unit, file.path)
            self._seen += 1

    def read(self, files: TableFiles, schema: Json) -> list[FileSample]:
        """Read the footers. One that cannot be read is left out: the upgrade itself tells of it."""
        every = -(-len(self.chosen) // MOST_FILES) or 1
        chosen = {location: (unit, kind) for location, unit, kind in self.chosen[::every]}
        formats = {location: kind for location, (_, kind) in chosen.items() if kind is not None}
        try:
            read = [stats for stats in files.examined(schema, [*chosen], formats) if isinstance(stats, FileStats)]
        except CatalogError:
            return []
        self.readable = [(stats.location, chosen[stats.location][0]) for stats in read if stats.record_count]
        return [_read_sample(stats, chosen[stats.location][0].name, schema) for stats in read]

    def _take(self, unit: Unit, path: str) -> None:
        location = join(unit.location, path)
        if len(self.chosen) == 2 * MOST_FILES:
            del self.chosen[1::2]
            self._step *= 2
            if self._seen % self._step:
                return
        self.chosen.append((location, unit, formats_of(unit, [path]).get(location)))


@dataclass(frozen=True)
class RowSampler:
    """Looks for duplicates and nulls of keys in the first rows of some files."""

    engine: QueryEngine
    limits: QueryLimits
    file_io: dict[str, str]
    enabled: bool
    """Whether this server reads rows for people."""
    _waiting: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(MOST_WAITING))

    def sample(
        self,
        table: str,
        files: Sequence[tuple[str, Unit]],
        partition_columns: Sequence[str],
        keys: Sequence[tuple[str, ...]],
    ) -> Mapping[tuple[str, ...], RowSample]:
        """Sample keys; empty if the server reads no rows, has no time, or cannot read one of the files."""
        if not (self.enabled and keys and files) or not self._waiting.acquire(blocking=False):
            return {}
        try:
            return dict(self._sample(table, _spread(files), partition_columns, keys))
        except CatalogError:  # the suggestions then rest on what is known without rows
            return {}
        finally:
            self._waiting.release()

    def _sample(
        self,
        table: str,
        files: Sequence[tuple[str, Unit]],
        partition_columns: Sequence[str],
        keys: Sequence[tuple[str, ...]],
    ) -> Iterator[tuple[tuple[str, ...], RowSample]]:
        names = [column.lower() for column in partition_columns]
        sampled = [
            SampledFile(location=location, format=unit.format, constants=_read_constants(names, unit))
            for location, unit in files
        ]
        columns = sorted({column.lower() for key in keys for column in key})
        task = QueryTask(
            statement=" UNION ALL ".join(_count_repeats(number, key) for number, key in enumerate(keys)),
            tables=[
                QueryTable(
                    view=_VIEW,
                    name=table,
                    metadata="",
                    snapshot_id=None,
                    columns=columns,
                    first_rows=FirstRows(files=sampled, rows=ROWS_OF_A_FILE, result_bytes=BYTES_OF_A_FILE),
                )
            ],
            limits=self.limits,
            export=False,
            file_io=self.file_io,
        )
        rows: list[list[str | None]] = []

        def take(message: QueryMessage) -> None:
            rows.extend([] if message.page is None else message.page.rows)

        self.engine.run(task, _allow({location for location, _ in files}), take, lambda: False)
        for row in rows:
            number, count, read, nulls, repeated = (int(text or 0) for text in row)
            yield keys[number], RowSample(rows=count, files=read, null_rows=nulls, repeated_rows=repeated)

    def end_idle(self) -> int:
        """End the process if no check has used it for a while; returns 1 if it did."""
        return int(self.engine.end_if_idle())

    def stop(self) -> None:
        """End the process."""
        self.engine.stop()


def _spread(files: Sequence[tuple[str, Unit]]) -> Sequence[tuple[str, Unit]]:
    """Some of the files, spread evenly."""
    return files[:: -(-len(files) // MOST_ROW_FILES) or 1]


def _read_constants(names: Sequence[str], unit: Unit) -> dict[str, str | None]:
    values = (None if value == NULL_NAME else value for value in unit.values)
    return dict(zip(names, values, strict=True)) if unit.values else {}


def _allow(locations: set[str]) -> Callable[[str, Sequence[str]], None]:
    def check(_view: str, files: Sequence[str]) -> None:
        if not locations.issuperset(files):
            raise Invalid("the engine names a file that the check has not chosen")

    return check


def _count_repeats(number: int, key: Sequence[str]) -> str:
    """The statement that counts the rows, files, nulls and repeated rows of a key."""
    names = [quote_column(column.lower()) for column in key]
    any_null = " OR ".join(f"{name} IS NULL" for name in names)
    groups = f"SELECT count(*) - 1 AS repeated FROM {_VIEW} WHERE NOT ({any_null}) GROUP BY {', '.join(names)}"  # noqa: S608 -- names are quoted
    return (
        f"SELECT {number}, count(*), count(DISTINCT {_FILE}), count(*) FILTER (WHERE {any_null}), "  # noqa: S608 -- names are quoted
        f"(SELECT CAST(coalesce(sum(repeated), 0) AS BIGINT) FROM ({groups})) FROM {_VIEW}"
    )


def _read_sample(stats: FileStats, partition: str, schema: Json) -> FileSample:
    columns = {item["name"]: sample for item in schema["fields"] if (sample := _read_column(stats, item)) is not None}
    return FileSample(partition=partition, rows=stats.record_count, columns=columns)


def _read_column(stats: FileStats, column: Json) -> ColumnSample | None:
    """What the footer says of a column; None if it says nothing."""
    nulls = stats.null_counts.get(column["id"])
    low, high = stats.lower_bounds.get(column["id"]), stats.upper_bounds.get(column["id"])
    if low is None or high is None:
        return None if nulls is None else ColumnSample(nulls=nulls)
    if (first := _parse_number(column["type"], low)) is None or (last := _parse_number(column["type"], high)) is None:
        return ColumnSample(nulls=nulls)  # bounds of texts may be cut, so equal ones prove nothing
    return ColumnSample(nulls=nulls, low=first, high=last, is_constant=first == last)


def _parse_number(kind: object, bound: bytes) -> int | None:
    """A bound as a whole number, of the types whose values have a distance of one."""
    if kind in _LITTLE_ENDIAN:
        return int.from_bytes(bound, "little", signed=True)
    if isinstance(kind, str) and _WHOLE_DECIMAL.fullmatch(kind):
        return int.from_bytes(bound, "big", signed=True)
    return None
