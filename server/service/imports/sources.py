"""The sources of imports. Each yields namespaces first, and then the tables and views in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from catalog.errors import Invalid
from catalog.hive.model import HiveDatabase, HiveTable
from catalog.imports.entry import FoundEntry
from catalog.imports.spec import ImportSpec, Secrets
from catalog.names import Namespace, check_namespace
from catalog.ports.files import TableFiles
from catalog.ports.hive import Metastores
from catalog.ports.imports import ForeignCatalog, ForeignCatalogs
from catalog.ports.metastore import Metastore
from firn.protocol.imports import EntryKind, EntryState, SourceKind
from server.service.imports.warehouse import WarehouseSource
from server.service.tables.metadata_files import MetadataFiles

DEEPEST_NAMESPACE = 64
TABLES_PER_CALL = 200
OTHERS_NAMED = 20
"""Hive tables that the note of an import names; it counts the others."""


class Source(Protocol):
    """The source of one import. Methods raise Unavailable if it does not answer; a later try may succeed."""

    notes: list[str]
    """Notes for the user after the listing."""

    def list_entries(self) -> Iterator[FoundEntry]:
        """Everything that the import asks for, from the beginning each time."""

    def locate(self, kind: EntryKind, namespace: Namespace, name: str) -> str:
        """Where the current metadata of something found lies now; names are those of this catalog."""

    def check(self) -> None:
        """Whether the source answers at all."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Sources:
    """Makes the source that an import names."""

    files: TableFiles
    metadata: MetadataFiles
    metastores: Metastores
    foreign: ForeignCatalogs

    def of(self, spec: ImportSpec, secrets: Secrets) -> Source:
        """Open the source; the caller closes it. It sends no request before the first call."""
        match spec.kind:
            case SourceKind.WAREHOUSE:
                return WarehouseSource(spec, self.files, self.metadata)
            case SourceKind.REST:
                return RestSource(spec, self.foreign.of(spec, secrets))
            case SourceKind.HIVE:
                return HiveSource(spec, self.metastores.of(spec.address))


@dataclass
class RestSource:
    """Another Iceberg REST catalog, namespace by namespace."""

    spec: ImportSpec
    catalog: ForeignCatalog
    notes: list[str] = field(default_factory=list)

    def list_entries(self) -> Iterator[FoundEntry]:
        pending: list[Namespace] = sorted(self.catalog.children(()), reverse=True)
        seen = set(pending)
        while pending:
            namespace = pending.pop()
            yield from self._of(namespace)
            below = set(self.catalog.children(namespace)) - seen if len(namespace) < DEEPEST_NAMESPACE else set()
            seen |= below
            pending.extend(sorted(below, reverse=True))

    def _of(self, namespace: Namespace) -> Iterator[FoundEntry]:
        inside = [(EntryKind.TABLE, name) for name in self.catalog.tables(namespace)]
        inside += [(EntryKind.VIEW, name) for name in self.catalog.views(namespace)]
        selected = [(kind, name) for kind, name in inside if self.spec.takes(".".join((*namespace, name)))]
        here = (*self.spec.into, *namespace)
        if selected or self.spec.takes_all:
            # The default location of the other catalog is not taken over.
            properties = {key: value for key, value in self.catalog.properties(namespace).items() if key != "location"}
            yield FoundEntry(
                kind=EntryKind.NAMESPACE, namespace=here, properties=properties, source=".".join(namespace)
            )
        for kind, name in selected:
            yield FoundEntry(kind=kind, namespace=here, name=name, source=".".join((*namespace, name)))

    def locate(self, kind: EntryKind, namespace: Namespace, name: str) -> str:
        there = namespace[len(self.spec.into) :]
        if kind is EntryKind.VIEW:
            return self.catalog.view_location(there, name)
        return self.catalog.table_location(there, name)

    def check(self) -> None:
        self.catalog.check()

    def close(self) -> None:
        self.catalog.close()


@dataclass
class HiveSource:
    """The Iceberg tables and views of a Hive Metastore; what else it holds is named in a note."""

    spec: ImportSpec
    metastore: Metastore
    notes: list[str] = field(default_factory=list)

    def list_entries(self) -> Iterator[FoundEntry]:
        others: list[str] = []
        for database in self.metastore.databases():
            names = [name for name in self.metastore.tables(database) if self.spec.takes(f"{database}.{name}")]
            entries: list[FoundEntry] = []
            for start in range(0, len(names), TABLES_PER_CALL):
                for table in self.metastore.tables_detail(database, names[start : start + TABLES_PER_CALL]):
                    if table.is_iceberg or table.is_iceberg_view:
                        entries.append(self._relation(table))
                    else:
                        others.append(table.full_name)
            if entries or self.spec.takes_all:
                yield self._namespace(self.metastore.database(database))
            yield from entries
        self.notes = [_describe_others(others)] if others else []

    def _namespace(self, database: HiveDatabase) -> FoundEntry:
        properties = dict(database.parameters) | ({"comment": database.comment} if database.comment else {})
        properties |= {"location": database.location} if database.location else {}
        namespace = (*self.spec.into, database.name)
        return FoundEntry(kind=EntryKind.NAMESPACE, namespace=namespace, properties=properties, source=database.name)

    def _relation(self, table: HiveTable) -> FoundEntry:
        location = table.parameters.get("metadata_location")
        return FoundEntry(
            kind=EntryKind.VIEW if table.is_iceberg_view else EntryKind.TABLE,
            namespace=(*self.spec.into, table.database),
            name=table.name,
            source=table.full_name,
            state=EntryState.FOUND if location else EntryState.FAILED,
            reason=None if location else "the metastore has no metadata_location for it",
        )

    def locate(self, kind: EntryKind, namespace: Namespace, name: str) -> str:
        """Asked when its turn comes: since the listing another commit may have landed."""
        table = self.metastore.table(namespace[-1], name)
        location = table.parameters.get("metadata_location")
        if not location:
            raise Invalid(f"the metastore has no metadata_location for {kind} {table.full_name}")
        return location

    def check(self) -> None:
        self.metastore.databases()

    def close(self) -> None:
        """Do nothing: other users share the connections of the metastore."""


def _describe_others(others: Sequence[str]) -> str:
    """The note about tables that are not Iceberg tables: their names, and how to upgrade them."""
    tables = "1 Hive table is" if len(others) == 1 else f"{len(others):,} Hive tables and views are"
    more = f" and {len(others) - OTHERS_NAMED:,} more" if len(others) > OTHERS_NAMED else ""
    return (
        f"{tables} no Iceberg: {', '.join(others[:OTHERS_NAMED])}{more}. `firn hive upgrade` takes over those in "
        "Parquet, ORC and Avro, in a catalog linked to the metastore"
    )


def check_entry(entry: FoundEntry) -> FoundEntry:
    """The same; failed, under a name that can be stored, when no such name can be here."""
    parts = (*entry.namespace, *([entry.name] if entry.kind is not EntryKind.NAMESPACE else []))
    try:
        _check_names(parts)
    except Invalid as error:
        namespace = tuple(_storable(part) for part in entry.namespace)
        return FoundEntry(
            kind=entry.kind,
            namespace=namespace,
            name=_storable(entry.name),
            source=_storable(entry.source),
            state=EntryState.FAILED,
            reason=_storable(error.message),
        )
    return entry


def _check_names(parts: Namespace) -> None:
    check_namespace(parts)
    if any(part != _storable(part) for part in parts):
        raise Invalid(f"invalid name {'.'.join(map(_storable, parts))!r}: it is no text")


def _storable(text: str) -> str:
    """Databases hold no NUL, and file names may be no text at all."""
    return text.replace("\0", "�").encode("utf-8", "replace").decode()
