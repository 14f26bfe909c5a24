"""Footers of many files, read at once.

Parquet and ORC files are never read beyond their tails; Avro has none, so the headers of its blocks are read.  Reading
is done by threads, because an object store or a cold disk answers many at a time; decoding takes 0.1 ms a file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from thrift.Thrift import TException

from catalog.errors import CatalogError, Denied, Invalid, NotFound
from catalog.files.data_file import FileFormat, FileStats, Unreadable
from server.files import avro_files, orc_files
from server.files.avro_files import AvroFiles
from server.files.digests import TAIL, digest_of
from server.files.julian_calendar import check_calendar, old_days
from server.files.layout import Column, Layout, Layouts, RowsAlone, WrongLayout
from server.files.orc_files import OrcFiles
from server.files.parquet import (
    ENCRYPTED_MAGIC,
    MAGIC,
    TRAILER,
    ColumnMetaData,
    FileMetaData,
    RowGroup,
    Statistics,
    decode_footer,
    decode_marks,
)
from server.files.storage import Storage
from server.prefetch import run_in_threads

R = TypeVar("R")

_CHUNK = 64
_NO_STATISTICS = Statistics()
_DECODING = (TException, EOFError, AttributeError, TypeError, ValueError, IndexError, StopIteration, RuntimeError)


class BadFile(Invalid):
    """A file that cannot be registered: of another format, damaged, or of other columns than the table's."""

    def __init__(self, message: str, *, hint: str | None = None, has_rows: bool = False) -> None:
        """`has_rows` is whether its rows can be read nevertheless."""
        super().__init__(message, hint=hint)
        self.has_rows = has_rows


class Footers:
    """Reads footers for one table.  Safe to share between threads."""

    def __init__(
        self, storage: Storage, schema: Mapping[str, Any], *, threads: int = 4, nulls_of: Collection[int] = ()
    ) -> None:
        """`schema` is the table's Iceberg schema as JSON; partition columns that the files lack do no harm.

        Of the columns `nulls_of`, by field id, nulls are counted also where only the rows tell how many there are.
        """
        self._storage = storage
        self._layouts = Layouts(schema, always=nulls_of)
        self._orc = OrcFiles(schema, always=nulls_of)
        self._avro = AvroFiles(schema, nulls_of)
        self._threads = threads

    def read_all(
        self, locations: Iterable[str], formats: Mapping[str, FileFormat] | None = None
    ) -> Iterator[FileStats]:
        """Statistics of these files, in their order; neither need all be in memory.

        `formats` names those that are not Parquet; it is asked for a file's once its location has been taken. Raises
        BadFile, NotFound or Unavailable, naming the file, at the first that cannot be read.
        """
        return self._in_threads(self.read, locations, formats)

    def examine_all(
        self, locations: Iterable[str], formats: Mapping[str, FileFormat] | None = None
    ) -> Iterator[FileStats | Unreadable]:
        """The same, with files that cannot be read among the others; Unavailable when nothing can."""
        return self._in_threads(self._examine, locations, formats)

    def _in_threads(
        self,
        read: Callable[[str, FileFormat], R],
        locations: Iterable[str],
        formats: Mapping[str, FileFormat] | None,
    ) -> Iterator[R]:
        others = {} if formats is None else formats
        return run_in_threads(
            lambda some: [read(location, others.get(location, FileFormat.PARQUET)) for location in some],
            locations,
            threads=self._threads,
            at_once=_CHUNK,
            name="footers",
        )

    def _examine(self, location: str, form: FileFormat) -> FileStats | Unreadable:
        try:
            return self.read(location, form)
        except NotFound as error:
            return Unreadable(location=location, reason=_whole(error), is_gone=True)
        except BadFile as error:
            return Unreadable(location=location, reason=self._whose(error, location), has_rows=error.has_rows)
        except Denied as error:
            return Unreadable(location=location, reason=self._whose(error, location))

    def _whose(self, error: CatalogError, location: str) -> str:
        owner = self._storage.owner(location)
        return _whole(error) if owner is None else f"{_whole(error).rstrip('.')}. The file is {owner}'s"

    def read(self, location: str, form: FileFormat = FileFormat.PARQUET) -> FileStats:
        """Statistics of one file."""
        match form:
            case FileFormat.PARQUET:
                return self._read_parquet(location)
            case FileFormat.ORC:
                return self._read_orc(location)
            case FileFormat.AVRO:
                return self._read_avro(location)

    def _read_parquet(self, location: str) -> FileStats:
        tail, size = self._storage.tail(location, TAIL)
        length = _footer_length(location, tail, size)
        if length + TRAILER > len(tail):
            tail, size = self._storage.tail(location, self._bounded(location, length + TRAILER))
        try:
            data = tail[-TRAILER - length : -TRAILER]
            footer = decode_footer(data)
            layout = self._layouts.of(footer.schema)
            stats = _stats(location, size, footer, layout, digest_of(tail))
            if (column := old_days(stats, layout)) is not None:
                check_calendar(column, decode_marks(data))
            return stats
        except WrongLayout as error:
            raise _unfit(location, error) from error
        except _DECODING as error:
            raise _damaged(location, "its footer cannot be decoded") from error

    def _bounded(self, location: str, length: int) -> int:
        most = self._storage.limits.footer_bytes
        if length > most:
            hint = "If the file is sound, raise the server's setting reading.footer_bytes; see docs/settings.md."
            raise BadFile(f"{location}: its footer is larger than the {most} bytes that are read", hint=hint)
        return length

    def _read_orc(self, location: str) -> FileStats:
        tail, size = self._storage.tail(location, TAIL)
        try:
            length = OrcFiles.length(tail)
            if length > size:
                raise _damaged(location, "its footer is longer than the file", FileFormat.ORC)
            if length > len(tail):
                tail, size = self._storage.tail(location, self._bounded(location, length))
            return self._orc.stats(location, size, tail)
        except WrongLayout as error:
            raise _unfit(location, error) from error
        except orc_files.BROKEN as error:
            raise _damaged(location, str(error) or "its footer cannot be decoded", FileFormat.ORC) from error

    def _read_avro(self, location: str) -> FileStats:
        with self._storage.opened(location) as (file, size):
            try:
                return self._avro.stats(location, size, file)
            except WrongLayout as error:
                raise BadFile(f"{location}: {error.message}", hint=error.hint, has_rows=True) from error
            except avro_files.DaysBeyond as error:
                hint = (
                    "Correct it in Hive: a day that Hive shows as 0001-01-01 may be one in the year 0 as Avro counts."
                )
                raise BadFile(f"{location}: {error}, which is not read from Avro", hint=hint) from error
            except avro_files.BROKEN as error:
                raise _damaged(location, str(error) or "it cannot be decoded", FileFormat.AVRO) from error


def _unfit(location: str, error: WrongLayout) -> BadFile:
    return BadFile(f"{location}: {error.message}", hint=error.hint, has_rows=isinstance(error, RowsAlone))


def _whole(error: CatalogError) -> str:
    """All that is to be said, in one line."""
    return f"{error.message.rstrip('.')}. {error.hint}" if error.hint else error.message


def _footer_length(location: str, tail: bytes, size: int) -> int:
    if tail.endswith(ENCRYPTED_MAGIC):
        raise BadFile(f"{location} is an encrypted Parquet file, which cannot be registered")
    if size < len(MAGIC) + TRAILER or not tail.endswith(MAGIC):
        raise _damaged(location, f"it does not end as a Parquet file does ({size} bytes)")
    length = int.from_bytes(tail[-TRAILER:-4], "little")
    if length + TRAILER + len(MAGIC) > size:
        raise _damaged(location, "its footer is longer than the file")
    return length


def _damaged(location: str, reason: str, form: FileFormat = FileFormat.PARQUET) -> BadFile:
    named = {FileFormat.PARQUET: "Parquet", FileFormat.ORC: "ORC", FileFormat.AVRO: "Avro"}
    return BadFile(
        f"{location} is not a readable {named[form]} file: {reason}",
        hint="Remove the file or write it again; a file still being written needs a name that begins with _ or a dot.",
    )


def _stats(location: str, size: int, footer: FileMetaData, layout: Layout, digest: int) -> FileStats:
    groups = footer.row_groups
    facts = _Facts()
    for column in layout.columns:
        facts.add(column, [group.columns[column.position].meta for group in groups])
    return FileStats(
        location=location,
        size=size,
        record_count=footer.records,
        split_offsets=tuple(sorted(map(_start, groups))),
        column_sizes=facts.sizes,
        value_counts=facts.values,
        null_counts=facts.nulls,
        lower_bounds=facts.lower,
        upper_bounds=facts.upper,
        aliases=layout.aliases,
        digest=digest,
    )


class _Facts:
    """What the columns of one file say, by field id."""

    __slots__ = ("lower", "nulls", "sizes", "upper", "values")

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.values: dict[int, int] = {}
        self.nulls: dict[int, int] = {}
        self.lower: dict[int, bytes] = {}
        self.upper: dict[int, bytes] = {}

    def add(self, column: Column, chunks: Sequence[ColumnMetaData]) -> None:
        """Take in one column's chunks, one of each row group; most files have one row group, so that goes fast."""
        field_id = column.field_id
        only = chunks[0] if len(chunks) == 1 else None
        self.sizes[field_id] = only.compressed_size if only else sum(chunk.compressed_size for chunk in chunks)
        self.values[field_id] = only.values if only else sum(chunk.values for chunk in chunks)
        statistics = [chunk.statistics or _NO_STATISTICS for chunk in chunks]
        nulls = [one.null_count for one in statistics if one.null_count is not None]
        if len(nulls) == len(chunks):
            self.nulls[field_id] = sum(nulls)
        if column.bounds is None:
            return
        with_values = [s for s, chunk in zip(statistics, chunks, strict=True) if s.null_count != chunk.values]
        lower, upper = column.bounds.of(with_values)
        if lower is not None:
            self.lower[field_id] = lower
        if upper is not None:
            self.upper[field_id] = upper


def _start(group: RowGroup) -> int:
    """Where a row group begins; old writers leave a zero for a dictionary page that is not there."""
    first = group.columns[0].meta
    return min(first.data_page, first.dictionary_page or first.data_page)
