"""Names of catalogs, namespaces and tables, parsed once at the edge.

Inside, a namespace is a tuple of parts, and a part may hold dots, slashes, spaces and letters of any script. A dotted
name such as `sales.orders` is for people: where a part holds a dot or a backtick itself it is written between
backticks, as in Spark SQL, so that a dotted name always means one table.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import NewType
from urllib.parse import unquote
from uuid import UUID

from catalog.errors import Invalid
from firn.protocol import names
from firn.protocol.names import join_name

CatalogName = NewType("CatalogName", str)
RelationId = NewType("RelationId", UUID)
Namespace = tuple[str, ...]

SEPARATOR = "\x1f"
"""The separator between the parts of a namespace, in URLs (Iceberg REST specification) and in the database."""
LONGEST_CATALOG = 255
LONGEST_NAME = 512
LONGEST_NAMESPACE = 1_024
"""Bytes of UTF-8, of the name and of the folded name. Together they have to fit into one entry of a database index."""

_FORBIDDEN_KINDS = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode's categories of control characters, halves of surrogate pairs, and line and paragraph separators."""


def encode_namespace(namespace: Namespace) -> str:
    """Encode a namespace as one string, as the Iceberg REST specification does before URL encoding."""
    return SEPARATOR.join(namespace)


def decode_namespace(text: str) -> Namespace:
    """Decode the parts of a namespace from a URL or the database; raise Invalid if one cannot be a name."""
    return check_namespace(tuple(text.split(SEPARATOR)))


def decode_parent(text: str, client: str) -> Namespace:
    """Decode the namespace in a `parent` parameter; `client` is the request's User-Agent.

    PyIceberg encodes each part as for a path, and then the whole as a parameter: `%2520` for a space. For other clients
    a percent sign is a plain character. A guess by the existing names would list `a b` to a client that means `a%20b`.
    """
    parts = tuple(text.split(SEPARATOR))
    return check_namespace(tuple(map(unquote, parts)) if client.startswith("PyIceberg/") else parts)


def split_name(text: str) -> tuple[str, ...]:
    """Split a dotted name into parts; raise Invalid if a part is empty or backticks do not match."""
    try:
        return names.split_name(text)
    except names.InvalidName as error:
        raise Invalid(error.message, hint=error.hint) from error


def parse_namespace(text: str) -> Namespace:
    """Parse `sales.eu` into ("sales", "eu"); raise Invalid if a part cannot be a name."""
    return check_namespace(split_name(text))


def check_namespace(namespace: Namespace) -> Namespace:
    """Return the namespace; raise Invalid if it has no parts, if one cannot be a name, or if it is too long."""
    if not namespace or any(not part for part in namespace):
        raise Invalid(f"invalid namespace {join_name(namespace)!r}: every part needs at least one character")
    for part in namespace:
        _check_part(part)
    _check_length("namespace", encode_namespace(namespace), LONGEST_NAMESPACE)
    return namespace


def normalize_name(name: str) -> str:
    """Normalize a name (NFC): names that look and mean the same, but have other code points, become equal."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def fold_case(name: str) -> str:
    """Fold a name: names that differ only in case, or in the composition of accents, become equal."""
    if name.isascii():
        return name.lower()
    return normalize_name(normalize_name(name).casefold())


def explain_name_clash(existing: object, requested: object) -> str | None:
    """Explain why an existing name with another spelling is the requested one; None if both are spelled the same."""
    if str(existing) == str(requested):
        return None
    if normalize_name(str(existing)) == normalize_name(str(requested)):
        return f"{requested} and the existing {existing} are one name: they differ only in their Unicode code points"
    return f"in this catalog {requested} and the existing {existing} are one name: they differ only in case"


def _check_part(part: str) -> None:
    if not part.isprintable() and any(unicodedata.category(char) in _FORBIDDEN_KINDS for char in part):
        raise Invalid(f"invalid name {part!r}: control characters and line breaks are not allowed")
    if part in (".", ".."):
        raise Invalid(f"invalid name {part!r}: clients and proxies remove it from URLs", hint="choose another name")
    if part[0].isspace() or part[-1].isspace():
        raise Invalid(f"invalid name {part!r}: it begins or ends with a space")
    _check_length("name", part, LONGEST_NAME)


def _check_length(kind: str, text: str, longest: int) -> None:
    size = (
        len(text)
        if text.isascii()
        else max(len(form.encode()) for form in (text, fold_case(text), normalize_name(text)))
    )
    if size > longest:
        raise Invalid(
            f"invalid {kind} {text[:40]!r}…: it has {size:,} bytes in UTF-8, at most {longest:,} are allowed",
            hint="choose a shorter one",
        )


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table, view or keyed table inside one catalog."""

    namespace: Namespace
    name: str

    def __post_init__(self) -> None:
        check_namespace(self.namespace)
        if not self.name:
            raise Invalid("invalid table name: it is empty")
        _check_part(self.name)

    def __str__(self) -> str:
        return join_name((*self.namespace, self.name))

    @classmethod
    @lru_cache(maxsize=4_096)  # requests about many tables parse the same names again and again
    def parse(cls, text: str) -> TableName:
        """Parse `db.orders` into the namespace ("db",) and the name "orders"; raise Invalid without a namespace."""
        *namespace, name = split_name(text)
        if not namespace:
            raise Invalid(f"invalid table name {text!r}", hint="write it as NAMESPACE.TABLE, for example sales.orders")
        return cls(tuple(namespace), name)

    @property
    def as_namespace(self) -> Namespace:
        """The namespace that holds a keyed table's stores: `db.orders` holds `db.orders.base`."""
        return (*self.namespace, self.name)
