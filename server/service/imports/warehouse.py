"""A warehouse as the source of an import: each directory with metadata files is a table of any catalog."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from catalog.errors import Invalid, NotFound
from catalog.hive.listing import Listing
from catalog.imports.directory_names import derive_table_name
from catalog.imports.entry import FoundEntry
from catalog.imports.newest_metadata import (
    Ambiguous,
    Header,
    MetadataFile,
    NewestMetadata,
    find_newest,
    parse_metadata_name,
    read_header,
)
from catalog.imports.spec import ImportSpec
from catalog.names import Namespace
from catalog.ports.files import TableFiles
from firn.protocol.imports import EntryKind, EntryState
from server.service.tables.metadata_files import MetadataFiles

METADATA = "metadata"
HINT = "version-hint.text"
DEEPEST = 12
"""Directories below the warehouse: deeper ones are partitions of something that is no Iceberg table."""


@dataclass
class WarehouseSource:
    """Searches for tables level by level, but never inside a table, which may hold millions of files."""

    spec: ImportSpec
    files: TableFiles
    metadata: MetadataFiles
    notes: list[str] = field(default_factory=list)

    def list_entries(self) -> Iterator[FoundEntry]:
        root = self.spec.address.rstrip("/")
        seen: set[Namespace] = set()
        count = 0
        for parts, listing in self._list_tables(root):
            entry = self._read_table(root, parts, listing)
            if not self.spec.takes(".".join((*entry.namespace[len(self.spec.into) :], entry.name))):
                continue
            if entry.namespace and entry.namespace not in seen and entry.state is EntryState.FOUND:
                seen.add(entry.namespace)
                yield FoundEntry(kind=EntryKind.NAMESPACE, namespace=entry.namespace)
            count += 1
            yield entry
        self.notes = [] if count else [f"no Iceberg table lies below {root}"]

    def _list_tables(self, root: str) -> Iterator[tuple[tuple[str, ...], Listing]]:
        """Directories of tables, by the parts of their path, with the listing of their metadata."""
        level: list[tuple[str, ...]] = [()]
        for _ in range(DEEPEST + 1):
            listings = list(self.files.listings([_below(root, parts) for parts in level]))
            possible = [
                parts for parts, listing in zip(level, listings, strict=True) if METADATA in listing.subdirectories
            ]
            inside = self.files.listings([_below(root, (*parts, METADATA)) for parts in possible])
            tables = {
                parts: listing for parts, listing in zip(possible, inside, strict=True) if _metadata_files(listing)
            }
            if () in tables:
                raise Invalid(f"{root} is the directory of one table", hint="`firn table register` takes over one")
            yield from sorted(tables.items())
            level = [
                (*parts, name)
                for parts, listing in zip(level, listings, strict=True)
                if parts not in tables
                for name in listing.subdirectories
            ]
            if not level:
                return

    def _read_table(self, root: str, parts: tuple[str, ...], listing: Listing) -> FoundEntry:
        location = _below(root, parts)
        try:
            name = derive_table_name(parts, depth=self.spec.namespace_depth, into=self.spec.into)
        except Invalid as error:
            return FoundEntry(
                kind=EntryKind.TABLE,
                namespace=(*self.spec.into, *parts[:-1]),
                name=parts[-1],
                source=location,
                state=EntryState.FAILED,
                reason=error.message if error.hint is None else f"{error.message}: {error.hint}",
            )
        metadata = f"{location}/{METADATA}"
        picked = find_newest(
            _metadata_files(listing), self._hint(metadata, listing), lambda file: self._read(metadata, file)
        )
        state, reason, warnings = _describe_newest(picked)
        entry = FoundEntry(
            kind=EntryKind.TABLE,
            namespace=name.namespace,
            name=name.name,
            source=location,
            state=state,
            reason=reason,
            warnings=warnings,
        )
        if not isinstance(picked, NewestMetadata):
            return entry
        kind = EntryKind.VIEW if picked.header.is_view else EntryKind.TABLE
        return replace(entry, kind=kind, metadata_location=f"{metadata}/{picked.name}")

    def _read(self, directory: str, file: str) -> Header | None:
        try:
            return read_header(self.metadata.load(f"{directory}/{file}").parsed)
        except (NotFound, Invalid):
            return None

    def _hint(self, directory: str, listing: Listing) -> int | None:
        """Read the last version in a Hadoop catalog's version hint; None without a readable hint."""
        if all(file.path != HINT for file in listing.files):
            return None
        try:
            text = self.metadata.files.read(f"{directory}/{HINT}").decode("ascii", "replace").strip()
        except NotFound:
            return None
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None

    def locate(self, kind: EntryKind, namespace: Namespace, name: str) -> str:
        """The listing has told already."""
        raise NotFound(f"{kind} {'.'.join((*namespace, name))} has no metadata")

    def check(self) -> None:
        list(self.files.listings([self.spec.address]))

    def close(self) -> None:
        """Do nothing: every file is closed after its read."""


def _below(root: str, parts: tuple[str, ...]) -> str:
    return "/".join((root, *parts))


def _metadata_files(listing: Listing) -> list[MetadataFile]:
    parsed = (parse_metadata_name(file.path, file.mtime_ns) for file in listing.files)
    return [file for file in parsed if file is not None]


def _describe_newest(picked: NewestMetadata | Ambiguous | None) -> tuple[EntryState, str | None, tuple[str, ...]]:
    match picked:
        case None:
            return EntryState.SKIPPED, "none of its metadata files can be read; the write was probably cut off", ()
        case Ambiguous(reason=reason, names=names):
            advice = "register the right one with `firn table register`"
            return EntryState.AMBIGUOUS, f"{reason} ({', '.join(names)}); {advice}", ()
        case NewestMetadata(unreadable=()):
            return EntryState.FOUND, None, ()
        case NewestMetadata(unreadable=unreadable):
            return EntryState.FOUND, None, (f"{', '.join(unreadable)} cannot be read and was skipped",)
