"""Names of catalogs, namespaces and tables, parsed once at the edge.

Inside, a namespace is a tuple of parts, and a part may hold dots, slashes, spaces and letters of any script. A dotted
name such as `sales.orders` is for people: where a part holds a dot or a backtick itself it is written between
backticks, as in Spark SQL, so that a dotted name always means one table.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
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
"""Between the parts of a namespace, in URLs (Iceberg REST specification) and in the database."""
LONGEST_CATALOG = 255
LONGEST_NAME = 512
LONGEST_NAMESPACE = 1_024
"""In bytes of UTF-8, and of the folded name too: together they have to fit into one entry of a database index."""

_FORBIDDEN_KINDS = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode's control characters, halves of surrogate pairs, line and paragraph separators."""


def encode_namespace(namespace: Namespace) -> str:
    """The namespace as one string, as the Iceberg REST specification writes it before URL encoding."""
    return SEPARATOR.join(namespace)


def decode_namespace(text: str) -> Namespace:
    """The parts of a namespace out of a URL or the database; Invalid when one cannot be a name."""
    return check_namespace(tuple(text.split(SEPARATOR)))


def decode_parent(text: str, client: str) -> Namespace:
    """The namespace that a `parent` parameter names; `client` is who asks, as its User-Agent says.

    PyIceberg encodes each part as for a path and then the whole as a parameter: `%2520` for a space. For others a
    percent sign is one, so who asks decides: guessing by what exists would list `a b` to who asks for `a%20b`.
    """
    parts = tuple(text.split(SEPARATOR))
    return check_namespace(tuple(map(unquote, parts)) if client.startswith("PyIceberg/") else parts)


def split_name(text: str) -> tuple[str, ...]:
    """The parts of a dotted name; Invalid when a part is empty or backticks do not match."""
    try:
        return names.split_name(text)
    except names.InvalidName as error:
        raise Invalid(error.message, hint=error.hint) from error


def parse_namespace(text: str) -> Namespace:
    """`sales.eu` → ("sales", "eu"); Invalid when a part cannot be a name."""
    return check_namespace(split_name(text))


def check_namespace(namespace: Namespace) -> Namespace:
    """The namespace itself; Invalid when it has no parts, when one cannot be a name, or when it is too long."""
    if not namespace or any(not part for part in namespace):
        raise Invalid(f"invalid namespace {join_name(namespace)!r}: every part needs at least one character")
    for part in namespace:
        _check_part(part)
    _check_length("namespace", encode_namespace(namespace), LONGEST_NAMESPACE)
    return namespace


def normalize_name(name: str) -> str:
    """What two names have in common that look and mean the same but are written with other code points (NFC)."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def fold_case(name: str) -> str:
    """What two names have in common that differ in case only, or in how accents are put together."""
    if name.isascii():
        return name.lower()
    return normalize_name(normalize_name(name).casefold())


def find_name_in_other_case(held: object, wanted: object) -> str | None:
    """What to add to "already exists" when it is another name that does; None when it is the very name."""
    if str(held) == str(wanted):
        return None
    if normalize_name(str(held)) == normalize_name(str(wanted)):
        return f"{wanted} and {held}, which is there, are one name: they differ in how Unicode writes a character"
    return f"in this catalog {wanted} and {held}, which is there, are one name: they differ in case only"


def _check_part(part: str) -> None:
    if not part.isprintable() and any(unicodedata.category(char) in _FORBIDDEN_KINDS for char in part):
        raise Invalid(f"invalid name {part!r}: control characters and line breaks are not allowed")
    if part in (".", ".."):
        raise Invalid(f"invalid name {part!r}: clients and proxies take it out of a URL")
    if part[0].isspace() or part[-1].isspace():
        raise Invalid(f"invalid name {part!r}: it begins or ends with a space")
    _check_length("name", part, LONGEST_NAME)


def _check_length(what: str, text: str, longest: int) -> None:
    size = (
        len(text)
        if text.isascii()
        else max(len(form.encode()) for form in (text, fold_case(text), normalize_name(text)))
    )
    if size > longest:
        raise Invalid(
            f"invalid {what} {text[:40]!r}…: it has {size:,} bytes in UTF-8, at most {longest:,} can be stored",
            hint="take a shorter one",
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
    def parse(cls, text: str) -> TableName:
        """`db.orders` → namespace ("db",), name "orders"; a name without a namespace is Invalid."""
        *namespace, name = split_name(text)
        if not namespace:
            raise Invalid(f"invalid table name {text!r}", hint="write it as NAMESPACE.TABLE, for example sales.orders")
        return cls(tuple(namespace), name)

    @property
    def as_namespace(self) -> Namespace:
        """The namespace that holds a keyed table's stores: `db.orders` holds `db.orders.base`."""
        return (*self.namespace, self.name)
