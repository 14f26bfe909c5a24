"""Decides which entries of a list a caller may see, and builds pages that reveal nothing about hidden entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from catalog.access.privileges import Caller, Privilege, Rights, Securable
from catalog.names import CatalogName, Namespace, TableName
from catalog.ports.page import Page
from catalog.tables.relation import ListedRelation, Relation

T = TypeVar("T")
CHUNK = 1_000
"""Entries that the server reads at a time for a caller who may see only some of them."""

Fetch = Callable[[int, str | None], Page[T]]
"""Reads a page of up to so many entries after a cursor."""


@dataclass(frozen=True, slots=True)
class Visibility:
    """The objects that a caller may see; without rights (access control is off), all objects."""

    rights: Rights | None

    @classmethod
    def to(cls, caller: Caller | None) -> Visibility:
        """The visibility of a caller; None, when access control is off, sees all objects."""
        return cls(None if caller is None else caller.rights)

    def sees(self, on: Securable) -> bool:
        """Whether the caller may see the object."""
        return self.rights is None or self.rights.sees(on)

    def readable(self, on: Securable) -> bool:
        """Whether the caller may read the object, including its history."""
        return self.rights is None or self.rights.has(Privilege.READ, on)

    def catalog(self, name: CatalogName) -> bool:
        """Whether the caller may see the catalog."""
        return self.sees(Securable(name))

    def namespace(self, catalog: CatalogName, namespace: Namespace) -> bool:
        """Whether the caller may see the namespace."""
        return self.sees(Securable(catalog, namespace))

    def table(self, catalog: CatalogName, name: TableName) -> bool:
        """Whether the caller may see the table, view or keyed table."""
        return self.sees(Securable.of(catalog, name))

    def relation(self, relation: Relation) -> bool:
        """Whether the caller may see the relation; for a store, its keyed table decides."""
        return self.sees(get_securable(relation))

    def page(
        self, fetch: Fetch[T], sees: Callable[[T], bool], *, within: Securable, limit: int, cursor: str | None
    ) -> Page[T]:
        """A page of visible entries; its cursor is None when no visible entry follows."""
        if self.rights is None or self.rights.has(Privilege.READ, within):
            return fetch(limit, cursor)
        return _read_visible_page(fetch, sees, limit, cursor)


def get_securable(relation: Relation) -> Securable:
    """The securable of a relation; for a store, that of its keyed table."""
    if relation.kind.is_store:
        *above, owner = relation.name.namespace
        return Securable(relation.catalog, tuple(above), owner)
    return Securable.of(relation.catalog, relation.name)


def get_listed_securable(catalog: CatalogName, namespace: Namespace, relation: ListedRelation) -> Securable:
    """The securable of a relation in the listing of a namespace."""
    if relation.kind.is_store:
        return Securable(catalog, namespace[:-1], namespace[-1])
    return Securable(catalog, namespace, relation.name)


def _read_visible_page(fetch: Fetch[T], sees: Callable[[T], bool], limit: int, cursor: str | None) -> Page[T]:
    """Read until one more visible entry is found than fits: a cursor without further entries would reveal hidden ones.

    The cursor must point right behind the last entry of the page; a fetch that ends at this entry returns it.
    """
    visible: list[T] = []
    last: tuple[str | None, int] = (cursor, 0)
    size = max(limit, CHUNK)
    while True:
        page = fetch(size, cursor)
        for position, item in enumerate(page.items, start=1):
            if not sees(item):
                continue
            if len(visible) == limit:
                return Page(visible, _find_cursor_behind(fetch, *last))
            visible.append(item)
            last = (cursor, position)
        if page.next_cursor is None:
            return Page(visible, None)
        cursor = page.next_cursor


def _find_cursor_behind(fetch: Fetch[T], cursor: str | None, position: int) -> str | None:
    return fetch(position, cursor).next_cursor
