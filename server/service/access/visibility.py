"""What of a list its reader may see, and pages of it that hide how much they may not."""

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
"""How many entries are looked at at a time for one who sees only some of them."""

Fetch = Callable[[int, str | None], Page[T]]
"""A page of so many entries, from a cursor on."""


@dataclass(frozen=True, slots=True)
class Visibility:
    """What exists for somebody; without rights, as when access control is off, everything does."""

    rights: Rights | None

    @classmethod
    def to(cls, caller: Caller | None) -> Visibility:
        """What exists for a caller; for nobody in particular, where access control is off, everything."""
        return cls(None if caller is None else caller.rights)

    def sees(self, on: Securable) -> bool:
        """Whether it exists for the reader."""
        return self.rights is None or self.rights.sees(on)

    def readable(self, on: Securable) -> bool:
        """Whether the reader may know what happens to it."""
        return self.rights is None or self.rights.has(Privilege.READ, on)

    def catalog(self, name: CatalogName) -> bool:
        """Whether the catalog exists for the reader."""
        return self.sees(Securable(name))

    def namespace(self, catalog: CatalogName, namespace: Namespace) -> bool:
        """Whether the namespace exists for the reader."""
        return self.sees(Securable(catalog, namespace))

    def table(self, catalog: CatalogName, name: TableName) -> bool:
        """Whether the table, view or keyed table exists for the reader."""
        return self.sees(Securable.of(catalog, name))

    def relation(self, relation: Relation) -> bool:
        """The same; a store exists for those for whom its keyed table does."""
        return self.sees(get_securable(relation))

    def page(
        self, fetch: Fetch[T], sees: Callable[[T], bool], *, within: Securable, limit: int, cursor: str | None
    ) -> Page[T]:
        """A page of what the reader sees; its cursor is None when nothing that they see comes after it."""
        if self.rights is None or self.rights.has(Privilege.READ, within):
            return fetch(limit, cursor)
        return _seen_page(fetch, sees, limit, cursor)


def get_securable(relation: Relation) -> Securable:
    """What privileges on a relation are granted on: for a store, its keyed table."""
    if relation.kind.is_store:
        *above, owner = relation.name.namespace
        return Securable(relation.catalog, tuple(above), owner)
    return Securable.of(relation.catalog, relation.name)


def get_listed_securable(catalog: CatalogName, namespace: Namespace, listed: ListedRelation) -> Securable:
    """The same for one of a namespace's relations by its name."""
    if listed.kind.is_store:
        return Securable(catalog, namespace[:-1], namespace[-1])
    return Securable(catalog, namespace, listed.name)


def _seen_page(fetch: Fetch[T], sees: Callable[[T], bool], limit: int, cursor: str | None) -> Page[T]:
    """Looks on until one more is found than fits: a page that promised more of nothing would tell that it is there.

    The cursor stands right behind the page's last entry. Only the fetch that ends there can say it.
    """
    kept: list[T] = []
    last: tuple[str | None, int] = (cursor, 0)
    size = max(limit, CHUNK)
    while True:
        page = fetch(size, cursor)
        for place, item in enumerate(page.items, start=1):
            if not sees(item):
                continue
            if len(kept) == limit:
                return Page(kept, _behind(fetch, *last))
            kept.append(item)
            last = (cursor, place)
        if page.next_cursor is None:
            return Page(kept, None)
        cursor = page.next_cursor


def _behind(fetch: Fetch[T], cursor: str | None, places: int) -> str | None:
    return fetch(places, cursor).next_cursor
