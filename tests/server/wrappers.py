"""A database and files that pass every call on: tests of failures override the calls that fail."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass

from catalog.names import CatalogName, TableName
from catalog.ports.files import Files
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import LocatedRelation


@dataclass
class DatabaseWrapper:
    """A database that does what the real one does."""

    real: Database

    def reading(self) -> AbstractContextManager[UnitOfWork]:
        return self.real.reading()

    def writing(self) -> AbstractContextManager[UnitOfWork]:
        return self.real.writing()

    def locate(self, catalog: CatalogName, name: TableName) -> LocatedRelation | None:
        return self.real.locate(catalog, name)

    def truncate_log(self) -> bool:
        return self.real.truncate_log()

    def lock_commits(self, tables: Collection[str]) -> AbstractContextManager[None]:
        return self.real.lock_commits(tables)


@dataclass
class FilesWrapper:
    """Files that are what the real ones are."""

    real: Files

    def read(self, location: str, at_most: int | None = None) -> bytes:
        return self.real.read(location, at_most)

    def write_new(self, location: str, data: bytes) -> None:
        self.real.write_new(location, data)

    def delete(self, location: str) -> None:
        self.real.delete(location)

    def make_directory(self, location: str) -> None:
        self.real.make_directory(location)

    def exists(self, location: str) -> bool:
        return self.real.exists(location)

    def was_there_lately(self, location: str) -> bool:
        return self.real.was_there_lately(location)

    def real_path(self, path: str) -> str:
        return self.real.real_path(path)

    def is_link(self, path: str) -> bool:
        return self.real.is_link(path)
