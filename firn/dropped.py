"""What was dropped, and protection against it: the part of the client that undoes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote
from uuid import UUID

from firn.descriptions import build_change
from firn.errors import NotFound
from firn.protocol.answers.dropped import DroppedOut, NamespaceDropOut, UndropOut
from firn.transport import Json

if TYPE_CHECKING:
    from firn.client import Client


@dataclass(frozen=True, slots=True)
class DroppedList:
    """A catalog's list of what was dropped: `client.dropped.undrop("db.orders")`."""

    client: Client

    def list(
        self, catalog: str | None = None, *, name: str | None = None, limit: int | None = None
    ) -> Iterator[DroppedOut]:
        """Newest first, page by page."""
        documents = self.client.transport.items(self._root(catalog), {"name": name}, limit=limit)
        return (DroppedOut.read(document) for document in documents)

    def find(self, table: str, *, kinds: Sequence[str] = ("table", "view", "keyed")) -> DroppedOut:
        """The one of this name that was dropped last; NotFound when there is none."""
        name = self.client.name(table)
        for entry in self.list(name.catalog, name=name.table):
            if entry.kind in kinds:
                return entry
        raise NotFound(
            f"no dropped {name} is in the list: nobody dropped it, or its retention has ended",
            hint="`firn table list --dropped` lists all",
        )

    def undrop(self, catalog: str, entry_id: UUID, *, to: str | None = None, dry_run: bool = False) -> UndropOut:
        """Bring it back, with its history, under its own name or another."""
        path = f"{self._root(catalog)}/{entry_id}/undrop"
        return UndropOut.read(self.client.transport.change("POST", path, {"to": to}, {"dry_run": dry_run}))

    def purge(self, catalog: str, entry_id: UUID, *, keep_files: bool = False, dry_run: bool = False) -> None:
        """Delete its files now, in the background; or only take it off the list."""
        params = {"keep_files": keep_files, "dry_run": dry_run}
        self.client.transport.change("DELETE", f"{self._root(catalog)}/{entry_id}", params=params)

    def _root(self, catalog: str | None) -> str:
        return f"/catalogs/{quote(catalog or self.client.catalog, safe='')}/dropped"


@dataclass(frozen=True, slots=True)
class Namespaces:
    """A catalog's namespaces, as people write them: `sales.eu`."""

    client: Client

    def list(self, catalog: str | None = None, *, parent: str | None = None) -> Iterator[Json]:
        """Those directly under a parent, or at the top."""
        return self.client.transport.items(self._path(catalog), {"parent": parent})

    def create(self, name: str, catalog: str | None = None, properties: Mapping[str, str] | None = None) -> Json:
        """A new one, with its parents."""
        body = {"name": name, "properties": dict(properties or {})}
        return self.client.transport.change("POST", self._path(catalog), body)

    def get(self, name: str, catalog: str | None = None) -> Json:
        """One; NotFound if the catalog has none of that name."""
        return self.client.transport.get(self._path(catalog, name))

    def describe(
        self,
        name: str,
        catalog: str | None = None,
        *,
        comment: str | None = None,
        owner: str | None = None,
        add_labels: Sequence[str] = (),
        remove_labels: Sequence[str] = (),
    ) -> Json:
        """Change its comment, owner and labels. None leaves a text as it is, and an empty text removes it."""
        body = build_change(comment, owner, add_labels, remove_labels)
        return self.client.transport.change("PATCH", f"{self._path(catalog, name)}/description", body)

    def drop(
        self,
        name: str,
        catalog: str | None = None,
        *,
        recursive: bool = False,
        purge: bool = False,
        dry_run: bool = False,
    ) -> NamespaceDropOut:
        """Drop an empty one, or with everything in it."""
        params = {"recursive": recursive, "purge": purge, "dry_run": dry_run}
        return NamespaceDropOut.read(self.client.transport.change("DELETE", self._path(catalog, name), params=params))

    def protect(self, name: str, catalog: str | None = None, *, protected: bool = True) -> Json:
        """Protect it against being dropped, or lift the protection."""
        verb = "protect" if protected else "unprotect"
        return self.client.transport.change("POST", f"{self._path(catalog, name)}/{verb}")

    def _path(self, catalog: str | None, name: str | None = None) -> str:
        root = f"/catalogs/{quote(catalog or self.client.catalog, safe='')}/namespaces"
        return root if name is None else f"{root}/{quote(name, safe='')}"
