"""What an import is asked to do, checked at the edge and kept with its operation. Secrets are no part of it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

from catalog.errors import Invalid
from catalog.locations.paths import check_warehouse, parse_metastore_uris
from catalog.names import Namespace, check_namespace


class SourceKind(StrEnum):
    """Where tables are imported from."""

    WAREHOUSE = "warehouse"  # directories, scanned for metadata files
    REST = "rest"  # another Iceberg REST catalog
    HIVE = "hive"  # the Iceberg tables that a Hive Metastore holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """What the source wants to see before it answers: a bearer token, or `CLIENT_ID:CLIENT_SECRET`."""

    token: str | None = field(default=None, repr=False)
    credential: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        given = [one for one in (self.token, self.credential) if one is not None]
        if len(given) > 1:
            raise Invalid("a token and a credential are given, where one of them is enough")
        if not all(one.isascii() and one.isprintable() and one for one in given):
            raise Invalid("the token or credential has characters that none has")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSpec:
    """One import. `include` and `exclude` are patterns over dotted names as the source has them, such as `sales.*`."""

    kind: SourceKind
    address: str
    warehouse: str | None = None
    token_server: str | None = None
    scope: str | None = None
    into: Namespace = ()
    namespace_depth: int | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    dry_run: bool = False
    overwrite: bool = False
    refresh: bool = False
    allow: tuple[str, ...] = ()
    """What an administrator adds to the catalog's allowed locations before it begins."""

    def takes(self, name: str) -> bool:
        """Whether a table of this name is asked for."""
        included = not self.include or any(fnmatchcase(name, pattern) for pattern in self.include)
        return included and not any(fnmatchcase(name, pattern) for pattern in self.exclude)

    @property
    def takes_all(self) -> bool:
        """Whether nothing is left out: then empty namespaces come too."""
        return not self.include and not self.exclude

    def to_json(self) -> dict[str, Any]:
        """As it is kept with its operation."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> ImportSpec:
        """As it was kept."""
        lists = {key: tuple(kept[key]) for key in ("into", "include", "exclude", "allow")}
        return cls(**{**kept, **lists, "kind": SourceKind(kept["kind"])})


def check_spec_request(spec: ImportSpec, secrets: Secrets) -> ImportSpec:
    """The spec itself; Invalid for an address that makes no sense and for options that its kind of source has not."""
    if spec.into:
        check_namespace(spec.into)
    for location in spec.allow:
        check_source_location(check_warehouse(location))
    if spec.namespace_depth is not None and spec.namespace_depth < 0:
        raise Invalid("the namespace depth is a number of directories, 0 or more")
    only_rest = (spec.warehouse, spec.token_server, spec.scope, secrets.token, secrets.credential)
    if spec.kind is not SourceKind.REST and any(one is not None for one in only_rest):
        raise Invalid("warehouse, token, credential, scope and token server go with a REST catalog alone")
    if spec.kind is not SourceKind.WAREHOUSE and spec.namespace_depth is not None:
        raise Invalid("the namespace depth goes with a warehouse alone: other sources have namespaces of their own")
    match spec.kind:
        case SourceKind.WAREHOUSE:
            check_source_location(check_warehouse(spec.address))
        case SourceKind.REST:
            check_source_url(spec.address)
            if spec.token_server is not None:
                check_source_url(spec.token_server)
        case SourceKind.HIVE:
            parse_metastore_uris(spec.address)
    return spec


def check_source_location(location: str) -> str:
    """The location itself; Invalid when it climbs out of where it seems to lie."""
    if any(part in {"..", "."} for part in location.split("/")) or "\0" in location:
        raise Invalid(f"{location!r} is no plain location", hint="give a full path without . and ..")
    return location


def check_source_url(url: str) -> str:
    """The URL itself; Invalid unless it is http(s) of a host that may be asked, without a user or a query in it.

    Link-local addresses are where clouds tell a machine its own credentials: nobody keeps a catalog there.
    """
    how = "write http://HOST:PORT/PATH or https://HOST/PATH"
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        raise Invalid(f"{url!r} is no address of a catalog: {error}", hint=how) from error
    if parts.scheme not in {"http", "https"} or not host or not url.isprintable() or " " in url:
        raise Invalid("the address of the catalog is no http or https URL", hint=how)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise Invalid("the address of the catalog holds a user, a query or a fragment", hint="give token or credential")
    check_address(host)
    return url


def check_address(host: str) -> None:
    """Invalid for a link-local or unspecified address; names are looked at once they are resolved."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return
    mapped = getattr(address, "ipv4_mapped", None) or address
    if mapped.is_link_local or mapped.is_unspecified or mapped.is_multicast:
        raise Invalid(f"{host} is no address that a catalog may have")
