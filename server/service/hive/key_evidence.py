"""Reads what speaks for a key of a Hive table that is not upgraded yet: its declared key, and a sample of footers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from catalog.errors import CatalogError
from catalog.files.data_file import FileFormat, FileStats
from catalog.hive.key_suggestions import ColumnSample, FileSample
from catalog.hive.listing import Listing
from catalog.iceberg.json import Json
from catalog.ports.files import TableFiles
from server.service.hive.hive_state import Unit, formats_of, join

MOST_FILES = 8
"""Footers of a sample. Each is one or two reads, and a check reads them while somebody waits."""

_LITTLE_ENDIAN = ("int", "long", "date")
_WHOLE_DECIMAL = re.compile(r"decimal\(\d+, *0\)")


@dataclass(slots=True)
class FileSampler:
    """Chooses files evenly from listings of any length, in one pass and bounded memory."""

    chosen: list[tuple[str, str, FileFormat | None]] = field(default_factory=list)
    """Location, partition and, unless it is Parquet, format: up to twice as many as are read."""
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
        chosen = {location: (partition, kind) for location, partition, kind in self.chosen[::every]}
        formats = {location: kind for location, (_, kind) in chosen.items() if kind is not None}
        try:
            read = [stats for stats in files.examined(schema, [*chosen], formats) if isinstance(stats, FileStats)]
        except CatalogError:
            return []
        return [_read_sample(stats, chosen[stats.location][0], schema) for stats in read]

    def _take(self, unit: Unit, path: str) -> None:
        location = join(unit.location, path)
        if len(self.chosen) == 2 * MOST_FILES:
            del self.chosen[1::2]
            self._step *= 2
            if self._seen % self._step:
                return
        self.chosen.append((location, unit.name, formats_of(unit, [path]).get(location)))


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
