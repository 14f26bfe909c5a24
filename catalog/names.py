"""Names of catalogs, namespaces and tables, parsed once at the edge.

A dotted name such as `sales.orders` is for people; inside, a namespace is a tuple of parts: parts may hold dots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType
from uuid import UUID

from catalog.errors import Invalid

CatalogName = NewType("CatalogName", str)
RelationId = NewType("RelationId", UUID)
Namespace = tuple[str, ...]

SEPARATOR = "\x1f"
"""Between the parts of a namespace, in URLs (Iceberg REST specification) and in the database."""


def encode_namespace(namespace: Namespace) -> str:
    """The namespace as one string, as the Iceberg REST specification writes it before URL encoding."""
    return SEPARATOR.join(namespace)


def decode_namespace(text: str) -> Namespace:
    """The parts of a namespace out of a URL or the database; Invalid when a part is empty."""
    return checked_namespace(tuple(text.split(SEPARATOR)))


def checked_namespace(namespace: Namespace) -> Namespace:
    """The namespace itself; Invalid when it has no parts, an empty part or a control character."""
    if not namespace or any(not part for part in namespace):
        raise Invalid(f"invalid namespace {'.'.join(namespace)!r}: every part needs at least one character")
    for part in namespace:
        _check_characters(part)
    return namespace


def _check_characters(part: str) -> None:
    if any(ord(char) < 0x20 or char == "\x7f" for char in part):
        raise Invalid(f"invalid name {part!r}: control characters are not allowed")
    if "/" in part:
        raise Invalid(f"invalid name {part!r}: a slash is not allowed, the name would not fit into a URL")


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table, view or keyed table inside one catalog."""

    namespace: Namespace
    name: str

    def __post_init__(self) -> None:
        checked_namespace(self.namespace)
        if not self.name:
            raise Invalid("invalid table name: it is empty")
        _check_characters(self.name)

    def __str__(self) -> str:
        return ".".join((*self.namespace, self.name))

    @classmethod
    def parse(cls, dotted: str) -> TableName:
        """`db.orders` → namespace ("db",), name "orders"; a name without a namespace is Invalid."""
        *namespace, name = dotted.split(".")
        if not namespace:
            raise Invalid(
                f"invalid table name {dotted!r}", hint="write it as NAMESPACE.TABLE, for example sales.orders"
            )
        return cls(tuple(namespace), name)

    @property
    def as_namespace(self) -> Namespace:
        """The namespace that holds a keyed table's stores: `db.orders` holds `db.orders.base`."""
        return (*self.namespace, self.name)
