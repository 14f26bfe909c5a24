"""Footers of many files, read in parallel.

The server reads only the tails of Parquet and ORC files; Avro has no footer, so it reads the headers of all blocks.
Threads read, because an object store or a cold disk serves many requests in parallel; decoding takes 0.1 ms a file.
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
from server.files.julian_calendar import check_calendar, find_old_days
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
    """A file that cannot be registered: it has another format or other columns than the table, or is damaged."""

    def __init__(self, message: str, *, hint: str | None = None, has_rows: bool = False) -> None:
        """`has_rows` says whether engines can read its rows nevertheless."""
        super().__init__(message, hint=hint)
        self.has_rows = has_rows


class Footers:
    """Reads footers for one table.  Safe to share between threads."""

    def __init__(
        self, storage: Storage, schema: Mapping[str, Any], *, threads: int = 4, nulls_of: Collection[int] = ()
    ) -> None:
        """`schema` is the table's Iceberg schema as JSON; files may lack its partition columns.

        For the columns `nulls_of`, by field id, the server counts nulls even if that means reading rows.
        """
        self._storage = storage
        self._layouts = Layouts(schema, always=nulls_of)
        self._orc = OrcFiles(schema, always=nulls_of)
        self._avro = AvroFiles(schema, nulls_of)
        self._threads = threads

    def read_all(
        self, locations: Iterable[str], formats: Mapping[str, FileFormat] | None = None
    ) -> Iterator[FileStats]:
        """Read the statistics of these files lazily, in their order.

        `formats` has the formats of files other than Parquet; the server looks up a file's format when it reads the
        file.  Raises BadFile, NotFound or Unavailable, naming the file, at the first file that it cannot read.
        """
        return self._in_threads(self.read, locations, formats)

    def examine_all(
        self, locations: Iterable[str], formats: Mapping[str, FileFormat] | None = None
    ) -> Iterator[FileStats | Unreadable]:
        """Read statistics like `read_all`, but yield unreadable files as such; Unavailable when the storage fails."""
        return self._in_threads(self._examine, locations, formats)

    def _in_threads(
        self,
        read: Callable[[str, FileFormat], R],
        locations: Iterable[str],
        formats: Mapping[str, FileFormat] | None,
    ) -> Iterator[R]:
        others = {} if formats is None else formats
        return run_in_threads(
            lambda batch: [read(location, others.get(location, FileFormat.PARQUET)) for location in batch],
            locations,
            threads=self._threads,
            at_once=_CHUNK,
            name="footers",
        )

    def _examine(self, location: str, form: FileFormat) -> FileStats | Unreadable:
        try:
            return self.read(location, form)
        except NotFound as error:
            return Unreadable(location=location, reason=_write_line(error), is_gone=True)
        except BadFile as error:
            return Unreadable(
                location=location, reason=self._write_with_owner(error, location), has_rows=error.has_rows
            )
        except Denied as error:
            return Unreadable(location=location, reason=self._write_with_owner(error, location))

    def _write_with_owner(self, error: CatalogError, location: str) -> str:
        owner = self._storage.owner(location)
        return _write_line(error) if owner is None else f"{_write_line(error).rstrip('.')}. The file is {owner}'s"

    def read(self, location: str, form: FileFormat = FileFormat.PARQUET) -> FileStats:
        """Read the statistics of one file."""
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
            tail, size = self._storage.tail(location, self._check_length(location, length + TRAILER))
        try:
            data = tail[-TRAILER - length : -TRAILER]
            footer = decode_footer(data)
            layout = self._layouts.of(footer.schema)
            stats = _collect_stats(location, size, footer, layout, digest_of(tail))
            if (column := find_old_days(stats, layout)) is not None:
                check_calendar(column, decode_marks(data))
            return stats
        except WrongLayout as error:
            raise _describe_unfit(location, error) from error
        except _DECODING as error:
            raise _describe_damage(location, "its footer cannot be decoded") from error

    def _check_length(self, location: str, length: int) -> int:
        most = self._storage.limits.footer_bytes
        if length > most:
            hint = "If the file is valid, raise the server's setting reading.footer_bytes; see docs/settings.md."
            raise BadFile(f"{location}: its footer is larger than the limit of {most} bytes", hint=hint)
        return length

    def _read_orc(self, location: str) -> FileStats:
        tail, size = self._storage.tail(location, TAIL)
        try:
            length = OrcFiles.length(tail)
            if length > size:
                raise _describe_damage(location, "its footer is longer than the file", FileFormat.ORC)
            if length > len(tail):
                tail, size = self._storage.tail(location, self._check_length(location, length))
            return self._orc.stats(location, size, tail)
        except WrongLayout as error:
            raise _describe_unfit(location, error) from error
        except orc_files.BROKEN as error:
            raise _describe_damage(location, str(error) or "its footer cannot be decoded", FileFormat.ORC) from error

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
                raise _describe_damage(location, str(error) or "it cannot be decoded", FileFormat.AVRO) from error


def _describe_unfit(location: str, error: WrongLayout) -> BadFile:
    return BadFile(f"{location}: {error.message}", hint=error.hint, has_rows=isinstance(error, RowsAlone))


def _write_line(error: CatalogError) -> str:
    """Write message and hint of an error in one line."""
    return f"{error.message.rstrip('.')}. {error.hint}" if error.hint else error.message


def _footer_length(location: str, tail: bytes, size: int) -> int:
    if tail.endswith(ENCRYPTED_MAGIC):
        raise BadFile(f"{location} is an encrypted Parquet file, which cannot be registered")
    if size < len(MAGIC) + TRAILER or not tail.endswith(MAGIC):
        raise _describe_damage(location, f"it does not end as a Parquet file does ({size} bytes)")
    length = int.from_bytes(tail[-TRAILER:-4], "little")
    if length + TRAILER + len(MAGIC) > size:
        raise _describe_damage(location, "its footer is longer than the file")
    return length


def _describe_damage(location: str, reason: str, form: FileFormat = FileFormat.PARQUET) -> BadFile:
    names = {FileFormat.PARQUET: "Parquet", FileFormat.ORC: "ORC", FileFormat.AVRO: "Avro"}
    return BadFile(
        f"{location} is not a readable {names[form]} file: {reason}",
        hint="Remove or rewrite the file; name an unfinished file so that it begins with _ or a dot.",
    )


def _collect_stats(location: str, size: int, footer: FileMetaData, layout: Layout, digest: int) -> FileStats:
    groups = footer.row_groups
    facts = _Facts()
    for column in layout.columns:
        facts.add(column, [group.columns[column.position].meta for group in groups])
    return FileStats(
        location=location,
        size=size,
        record_count=footer.records,
        split_offsets=tuple(sorted(map(_find_start, groups))),
        column_sizes=facts.sizes,
        value_counts=facts.values,
        null_counts=facts.nulls,
        lower_bounds=facts.lower,
        upper_bounds=facts.upper,
        aliases=layout.aliases,
        digest=digest,
    )


class _Facts:
    """The statistics of the columns of one file, by field id."""

    __slots__ = ("lower", "nulls", "sizes", "upper", "values")

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.values: dict[int, int] = {}
        self.nulls: dict[int, int] = {}
        self.lower: dict[int, bytes] = {}
        self.upper: dict[int, bytes] = {}

    def add(self, column: Column, chunks: Sequence[ColumnMetaData]) -> None:
        """Add the chunks of one column, one per row group; files with a single row group take a fast path."""
        field_id = column.field_id
        only = chunks[0] if len(chunks) == 1 else None
        self.sizes[field_id] = only.compressed_size if only else sum(chunk.compressed_size for chunk in chunks)
        self.values[field_id] = only.values if only else sum(chunk.values for chunk in chunks)
        statistics = [chunk.statistics or _NO_STATISTICS for chunk in chunks]
        nulls = [chunk.null_count for chunk in statistics if chunk.null_count is not None]
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


def _find_start(group: RowGroup) -> int:
    """Get the offset of a row group; old writers store zero for a missing dictionary page."""
    first = group.columns[0].meta
    return min(first.data_page, first.dictionary_page or first.data_page)
