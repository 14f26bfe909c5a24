"""A server that imports, the directories and catalogs that it imports from, and a process that dies at any step."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from catalog.errors import Unavailable
from catalog.iceberg.json import Json
from catalog.iceberg.table import build_table
from catalog.iceberg.view import build_view
from catalog.imports.entry import Entry
from catalog.imports.spec import ImportSpec, Secrets
from catalog.jobs.operation import Operation
from catalog.names import Namespace, TableName
from catalog.ports.imports import ForeignCatalog
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from firn.protocol.imports import EntryKind, SourceKind
from server.container import build_services
from server.service.imports.imports import Imports
from server.service.services import Services
from tests.factories import LAKE
from tests.server.default_settings import settings_in
from tests.server.lake import COLUMNS
from tests.server.metastore.fake import FakeMetastore
from tests.server.service.hive.mortal import Fuse, MortalDatabase, OneMetastore

_UUIDS = (str(UUID(int=number, version=4)) for number in count(1))


@dataclass
class Elsewhere:
    """A warehouse of tables as other catalogs leave it."""

    root: Path

    @property
    def uri(self) -> str:
        return self.root.as_uri()

    def table(self, path: str, *, uuid: str | None = None, file: str = "00000-a.metadata.json", **more: Any) -> Json:
        """A table without data; `more` are fields of its metadata with their hyphens as underscores."""
        place = self.root / path
        metadata = build_table(
            uuid=uuid or next(_UUIDS),
            location=place.as_uri(),
            schema=COLUMNS,
            partition_spec=None,
            sort_order=None,
            properties=more.pop("properties", {}),
            now_ms=1_700_000_000_000,
        )
        metadata |= {key.replace("_", "-"): value for key, value in more.items()}
        self.write(path, file, metadata)
        return metadata

    def successor(self, path: str, before: Json, before_file: str, file: str, **more: Any) -> Json:
        """A commit on a table: another file, which names the one it came from."""
        log = [*before.get("metadata-log", ()), {"timestamp-ms": 1, "metadata-file": self.location(path, before_file)}]
        metadata = {**before, "last-updated-ms": before["last-updated-ms"] + 1, "metadata-log": log, **more}
        self.write(path, file, metadata)
        return metadata

    def view(self, path: str) -> Json:
        version = {
            "version-id": 1,
            "timestamp-ms": 1_700_000_000_000,
            "schema-id": 0,
            "summary": {},
            "default-namespace": ["db"],
            "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
        }
        place = (self.root / path).as_uri()
        metadata = build_view(
            uuid=next(_UUIDS), location=place, schema=COLUMNS, view_version=version, properties={}, now_ms=1
        )
        self.write(path, "00000-a.metadata.json", metadata)
        return metadata

    def write(self, path: str, file: str, content: Json | bytes) -> None:
        place = self.root / path / "metadata" / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())

    def location(self, path: str, file: str = "00000-a.metadata.json") -> str:
        return f"{self.uri}/{path}/metadata/{file}"


@dataclass
class FakeCatalog:
    """Another REST catalog in memory; `answers` False makes it silent."""

    namespaces: dict[Namespace, dict[str, str]] = field(default_factory=dict)
    located: dict[tuple[Namespace, str], str] = field(default_factory=dict)
    viewed: dict[tuple[Namespace, str], str] = field(default_factory=dict)
    answers: bool = True
    silent_for: set[str] = field(default_factory=set)
    request_count: int = 0

    def of(self, spec: ImportSpec, secrets: Secrets) -> ForeignCatalog:
        return self

    def check(self) -> None:
        self.request_count += 1
        if not self.answers:
            raise Unavailable("the other catalog does not answer")

    def children(self, parent: Namespace) -> Iterator[Namespace]:
        self.check()
        return iter([namespace for namespace in self.namespaces if namespace[:-1] == parent])

    def properties(self, namespace: Namespace) -> Mapping[str, str]:
        self.check()
        return self.namespaces[namespace]

    def tables(self, namespace: Namespace) -> Iterator[str]:
        self.check()
        return iter([name for there, name in self.located if there == namespace])

    def views(self, namespace: Namespace) -> Iterator[str]:
        self.check()
        return iter([name for there, name in self.viewed if there == namespace])

    def table_location(self, namespace: Namespace, name: str) -> str:
        self.check()
        if name in self.silent_for:
            raise Unavailable(f"500 for {name}")
        return self.located[namespace, name]

    def view_location(self, namespace: Namespace, name: str) -> str:
        self.check()
        return self.viewed[namespace, name]

    def close(self) -> None:
        pass


@dataclass
class Importing:
    """One server process; `restarted` is the next one over the same database and files."""

    services: Services
    imports: Imports
    database: Database
    directory: Path
    fuse: Fuse
    elsewhere: Elsewhere
    other: FakeCatalog
    metastore: FakeMetastore

    def restarted(self) -> Importing:
        return _composed(self.database, self.directory, self.other, self.metastore)

    def spec(self, **changes: Any) -> ImportSpec:
        return replace(ImportSpec(kind=SourceKind.WAREHOUSE, address=self.elsewhere.uri), **changes)

    def rest(self, **changes: Any) -> ImportSpec:
        return self.spec(kind=SourceKind.REST, address="http://other/iceberg", **changes)

    def hive(self, **changes: Any) -> ImportSpec:
        return self.spec(kind=SourceKind.HIVE, address="thrift://other:9083", **changes)

    def start(self, spec: ImportSpec, secrets: Secrets | None = None) -> Operation:
        return self.imports.start(LAKE, spec, secrets or Secrets())

    def run(self, spec: ImportSpec | None = None) -> dict[str, Entry]:
        """What a whole import has made of each table and view, by name."""
        operation = self.start(spec or self.spec())
        self.imports.activate()
        return self.entries(operation)

    def states(self, spec: ImportSpec | None = None) -> dict[str, str]:
        return {name: str(entry.state) for name, entry in self.run(spec).items()}

    def entries(self, operation: Operation) -> dict[str, Entry]:
        page = self.imports.entries(LAKE, operation.id, (), limit=5000, cursor=None)
        return {entry.full_name: entry for entry in page.items if entry.kind is not EntryKind.NAMESPACE}

    def operation(self, operation: Operation) -> Operation:
        with self.database.reading() as uow:
            return uow.operations.get(operation.id)

    def relation(self, name: str) -> Relation | None:
        with self.database.reading() as uow:
            return uow.relations.find(LAKE, TableName.parse(name))

    def pointer(self, name: str) -> str | None:
        relation = self.relation(name)
        return None if relation is None else relation.metadata_location

    @contextmanager
    def reading(self) -> Iterator[UnitOfWork]:
        with self.database.reading() as uow:
            yield uow


def importing(database: Database, directory: Path) -> Importing:
    composed = _composed(database, directory, FakeCatalog(), FakeMetastore())
    composed.elsewhere.root.mkdir(parents=True, exist_ok=True)
    allowed = {"firn.storage.allowed-locations": composed.elsewhere.uri}
    composed.services.namespaces.create_catalog(LAKE, (directory / "warehouse").as_uri(), None, allowed)
    return composed


def _composed(real: Database, directory: Path, other: FakeCatalog, metastore: FakeMetastore) -> Importing:
    fuse = Fuse()
    database = cast("Database", MortalDatabase(real, fuse))
    services = build_services(settings_in(directory / "data"), database)
    sources = replace(services.imports.sources, foreign=other, metastores=OneMetastore(metastore))
    imports = replace(services.imports, sources=sources)
    return Importing(services, imports, real, directory, fuse, Elsewhere(directory / "elsewhere"), other, metastore)
