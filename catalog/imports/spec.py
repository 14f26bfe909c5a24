"""The request of an import, validated at the edge and stored with its operation, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

from catalog.errors import Invalid
from catalog.locations.addresses import check_address
from catalog.locations.paths import check_warehouse, parse_metastore_uris
from catalog.names import Namespace, check_namespace
from firn.protocol.imports import SourceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """The source's credentials: a bearer token, or `CLIENT_ID:CLIENT_SECRET`."""

    token: str | None = field(default=None, repr=False)
    credential: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        secrets = [secret for secret in (self.token, self.credential) if secret is not None]
        if len(secrets) > 1:
            raise Invalid("give either a token or a credential, not both")
        if not all(secret.isascii() and secret.isprintable() and secret for secret in secrets):
            raise Invalid("the token or credential has characters outside of printable ASCII")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSpec:
    """One import. `include` and `exclude` are patterns over the source's dotted names, such as `sales.*`."""

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
    """Locations that an administrator adds to the catalog's allowed locations before the import starts."""

    def takes(self, name: str) -> bool:
        """Whether the import includes a table of this name."""
        included = not self.include or any(fnmatchcase(name, pattern) for pattern in self.include)
        return included and not any(fnmatchcase(name, pattern) for pattern in self.exclude)

    @property
    def takes_all(self) -> bool:
        """Whether the import includes all tables. Then it also creates empty namespaces."""
        return not self.include and not self.exclude

    def to_json(self) -> dict[str, Any]:
        """The spec as the operation stores it."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> ImportSpec:
        """The spec from its stored form."""
        lists = {key: tuple(kept[key]) for key in ("into", "include", "exclude", "allow")}
        return cls(**{**kept, **lists, "kind": SourceKind(kept["kind"])})


def check_spec_request(spec: ImportSpec, secrets: Secrets) -> ImportSpec:
    """The spec itself; Invalid for a malformed address, or for options that its kind of source does not have."""
    if spec.into:
        check_namespace(spec.into)
    for location in spec.allow:
        check_source_location(check_warehouse(location))
    if spec.namespace_depth is not None and spec.namespace_depth < 0:
        raise Invalid("the namespace depth is a number of directories, 0 or more")
    only_rest = (spec.warehouse, spec.token_server, spec.scope, secrets.token, secrets.credential)
    if spec.kind is not SourceKind.REST and any(option is not None for option in only_rest):
        raise Invalid("warehouse, token, credential, scope and token server are only for a REST catalog")
    if spec.kind is not SourceKind.WAREHOUSE and spec.namespace_depth is not None:
        raise Invalid("the namespace depth is only for a warehouse: other sources have namespaces")
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
    """The location itself; Invalid if it contains `.` or `..`."""
    if any(part in {"..", "."} for part in location.split("/")) or "\0" in location:
        raise Invalid(f"{location!r} is no plain location", hint="give a full path without . and ..")
    return location


def check_source_url(url: str) -> str:
    """The URL itself; Invalid unless it is an http(s) URL of an allowed host, without a user or a query.

    Clouds serve a machine's own credentials at link-local addresses, and no catalog has such an address.
    """
    hint = "write http://HOST:PORT/PATH or https://HOST/PATH"
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        raise Invalid(f"{url!r} is no address of a catalog: {error}", hint=hint) from error
    if parts.scheme not in {"http", "https"} or not host or not url.isprintable() or " " in url:
        raise Invalid("the address of the catalog is no http or https URL", hint=hint)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise Invalid("the address of the catalog holds a user, a query or a fragment", hint="give token or credential")
    check_address(host)
    return url
