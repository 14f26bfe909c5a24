"""Schema registries of connections: an administrator names the address and the user once, beside the brokers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from catalog.errors import Invalid
from catalog.locations.addresses import check_address

LONGEST_URL = 2_000
LONGEST_USERNAME = 255
LONGEST_SECRET = 4_096
MOST_REFERENCES = 50
"""The number of schemas to which one schema may refer, directly or through others."""
LARGEST_SCHEMA = 1024 * 1024
"""In characters, of a schema together with all that it refers to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRegistry:
    """Where the Avro schemas of a cluster's topics are, without the password."""

    url: str
    username: str | None = None
    sealed_password: str | None = field(default=None, repr=False)
    """Encrypted with a key that the database does not have."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """An Avro schema: its own text comes last, after the texts of the schemas that it refers to."""

    id: int
    texts: Sequence[str]


def check_registry(registry: SchemaRegistry, password: str | None) -> SchemaRegistry:
    """The registry itself; Invalid for a malformed address, or for a user without password or the reverse."""
    if not 0 < len(registry.url) <= LONGEST_URL or not registry.url.isprintable() or " " in registry.url:
        raise Invalid(f"the address of a schema registry has 1 to {LONGEST_URL} printable characters")
    check_address(_parse_host(registry.url))
    if (registry.username is None) != (password is None):
        raise Invalid("a schema registry has a user name and a password, or neither")
    for setting, text, longest in (
        ("the user name", registry.username, LONGEST_USERNAME),
        ("the password", password, LONGEST_SECRET),
    ):
        if text is not None and (not 0 < len(text) <= longest or not text.isprintable()):
            raise Invalid(f"{setting} of a schema registry has 1 to {longest} printable characters")
    return registry


def _parse_host(url: str) -> str:
    """The host of a registry's address; Invalid for anything but `http[s]://HOST[:PORT][/PATH]`."""
    with suppress(ValueError):
        parts = urlsplit(url)
        is_bare = not (parts.query or parts.fragment or parts.username is not None)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and is_bare:
            return parts.hostname
    raise Invalid(
        f"{url[:80]!r} is no address of a schema registry",
        hint="write it as https://registry.example:8081, and give user and password beside it",
    )


def is_https(registry: SchemaRegistry | None) -> bool:
    """Whether certificates are of use to reach the registry."""
    return registry is not None and registry.url.startswith("https:")
