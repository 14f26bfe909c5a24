"""Shared parts of the Iceberg routes: names from URLs, the caller's headers, answers with spliced JSON.

The dependencies here are coroutines, though they wait for nothing but the request's own body: FastAPI would run each
plain function in a thread, and four such hops cost a small load more than the load itself (docs/decisions/0020).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, cast

import orjson
from fastapi import Depends, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException

from catalog.access.privileges import Caller, Securable
from catalog.errors import Invalid
from catalog.jobs.leases import Lease
from catalog.names import CatalogName, Namespace, TableName, decode_namespace
from catalog.ports.page import Page
from catalog.tables.relation import ListedRelation, RelationKind
from server.service.access.visibility import Visibility, get_listed_securable
from server.service.services import Services

DEFAULT_PAGE = 1_000
MAX_PAGE = 5_000
LONGEST_ENGINE = 255


async def json_body(request: Request) -> dict[str, Any]:
    """The request's body: one JSON object that can also be written again, whatever it holds.

    It is read once for each request: the gate judges the very object that the route gets.
    """
    body: dict[str, Any] | None = getattr(request.state, "json_body", None)
    if body is None:
        body = request.state.json_body = _parse_object(await request.body())
    return body


def _parse_object(content: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(content)
        orjson.dumps(body)
    except (orjson.JSONDecodeError, TypeError) as error:  # half a surrogate pair, a depth that no reader follows
        raise HTTPException(400, f"malformed request: body: {error}") from error
    if not isinstance(body, dict):
        raise HTTPException(400, "malformed request: body: expected a JSON object")
    return body


async def body_value(request: Request) -> object:
    """The same for who judges the request before its route: None without a body, the exception for a malformed one.

    Only a caller who may send the request is told what is wrong with it.
    """
    if not await request.body():
        return None
    try:
        return await json_body(request)
    except HTTPException as error:
        return error


JsonBody = Annotated[dict[str, Any], Depends(json_body)]


async def services_of(request: Request) -> Services:
    """Get the services that server.container has built."""
    return cast("Services", request.app.state.services)


def caller_of(request: Request) -> Caller | None:
    """Get the caller; None while access control is off."""
    caller: Caller | None = getattr(request.state, "caller", None)
    return caller


async def visible_to(request: Request) -> Visibility:
    """Get the filter for objects that the caller may see."""
    return Visibility.to(caller_of(request))


async def commits(request: Request) -> None:
    """Mark a request as a commit: see errors.answer_refusal."""
    request.state.commits = True


async def catalog_name(catalog: Annotated[str, Path()]) -> CatalogName:
    """Parse the catalog from the prefix of the path."""
    return CatalogName(catalog)


async def namespace_of(namespace: Annotated[str, Path()]) -> Namespace:
    """Parse the namespace of the path."""
    return decode_namespace(namespace)


async def table_name(namespace: Annotated[str, Path()], table: Annotated[str, Path()]) -> TableName:
    """Parse the table of the path."""
    return TableName(decode_namespace(namespace), table)


async def view_name(namespace: Annotated[str, Path()], view: Annotated[str, Path()]) -> TableName:
    """Parse the view of the path."""
    return TableName(decode_namespace(namespace), view)


def lease_in(request: Request) -> Lease | None:
    """Parse the lease header of a job's request."""
    lease = request.headers.get("x-firn-lease")
    return None if lease is None else Lease.parse(lease)


async def lease_of(request: Request) -> Lease | None:
    """Parse the lease header, as a dependency of routes."""
    return lease_in(request)


async def engine_of(request: Request) -> str | None:
    """Read the client's name and version, such as `Apache Iceberg 1.12.0`, without its build commit."""
    version = request.headers.get("x-client-version")
    return None if version is None else version.partition(" (")[0][:LONGEST_ENGINE]


CatalogDep = Annotated[CatalogName, Depends(catalog_name)]
NamespaceDep = Annotated[Namespace, Depends(namespace_of)]
TableDep = Annotated[TableName, Depends(table_name)]
ViewDep = Annotated[TableName, Depends(view_name)]
ServicesDep = Annotated[Services, Depends(services_of)]
VisibilityDep = Annotated[Visibility, Depends(visible_to)]
LeaseDep = Annotated[Lease | None, Depends(lease_of)]
EngineDep = Annotated[str | None, Depends(engine_of)]


class PageParams(BaseModel):
    """The requested page of a list; without a token the whole list, as the specification requires."""

    model_config = ConfigDict(extra="ignore")
    pageToken: str | None = None  # noqa: N815 (the specification's name)
    pageSize: int | None = None  # noqa: N815 (the specification's name)

    @property
    def limit(self) -> int:
        """The number of entries on the page; Invalid below 1."""
        if self.pageSize is not None and self.pageSize < 1:
            raise Invalid(f"pageSize must be at least 1, not {self.pageSize}")
        return min(self.pageSize or DEFAULT_PAGE, MAX_PAGE)

    @property
    def cursor(self) -> str | None:
        """The cursor of the page; None for the first."""
        return self.pageToken or None

    @property
    def wants_all(self) -> bool:
        """Whether the client does not use pages."""
        return self.pageToken is None


PageDep = Annotated[PageParams, Query()]


@dataclass(frozen=True, slots=True)
class TableCall:
    """A request about one table, parsed by a single dependency, since each costs more than the query of a load."""

    request: Request
    services: Services
    catalog: CatalogName
    name: TableName

    @classmethod
    def of(cls, request: Request) -> TableCall:
        """Parse the catalog and table of the path."""
        path = request.path_params
        name = TableName(decode_namespace(path["namespace"]), path["table"])
        return cls(request, request.app.state.services, CatalogName(path["catalog"]), name)

    def header(self, name: str) -> str | None:
        """Get a header by its lower-case name; None if it is missing."""
        return self.request.headers.get(name)


async def table_call(request: Request) -> TableCall:
    """Parse a request about one table, for the most frequent routes."""
    return TableCall.of(request)


TableCallDep = Annotated[TableCall, Depends(table_call)]


def json_response(value: object, status: int = 200) -> Response:
    """Build an answer with a JSON value."""
    return Response(orjson.dumps(value), status, media_type="application/json")


def loaded_response(
    metadata_location: str | None,
    text: bytes,
    *,
    etag: str | None = None,
    config: Mapping[str, str] | None = None,
    more: Mapping[str, object] | None = None,
) -> Response:
    """Build a LoadTableResult or LoadViewResult around stored metadata, without decoding it."""
    location = b"" if metadata_location is None else b'"metadata-location":' + orjson.dumps(metadata_location) + b","
    headers = {} if etag is None else {"ETag": etag}
    rest = orjson.dumps({"config": config or {}, **(more or {})})
    content = b"{" + location + b'"metadata":' + text + b"," + rest[1:]
    return Response(content, media_type="application/json", headers=headers)


def listed_response(
    services: Services,
    visible: Visibility,
    catalog: CatalogName,
    namespace: Namespace,
    kinds: Collection[RelationKind],
    page: PageParams,
) -> Response:
    """List a page of a namespace's relations, or all of them for a client without pages."""

    def listing(limit: int, cursor: str | None) -> Page[ListedRelation]:
        return visible.page(
            lambda size, start: services.views.list(catalog, namespace, kinds, limit=size, cursor=start),
            lambda relation: visible.sees(get_listed_securable(catalog, namespace, relation)),
            within=services.access.namespace(catalog, namespace) if visible.rights else Securable(catalog, namespace),
            limit=limit,
            cursor=cursor,
        )

    limit = page.limit  # checked even if the client does not use pages
    relations = listing(MAX_PAGE if page.wants_all else limit, page.cursor)
    items = list(relations.items)
    while page.wants_all and relations.next_cursor is not None:
        relations = listing(MAX_PAGE, relations.next_cursor)
        items.extend(relations.items)
    rest = orjson.dumps({"next-page-token": relations.next_cursor})
    content = b'{"identifiers":[' + _identifiers(namespace, items) + b"]," + rest[1:]
    return Response(content, media_type="application/json")


def _identifiers(namespace: Namespace, relations: Sequence[ListedRelation]) -> bytes:
    """Encode names with their namespace by splicing, because thousands of dictionaries take longer than the query."""
    before = b'{"namespace":' + orjson.dumps(namespace) + b',"name":'
    return b",".join([before + orjson.dumps(relation.name) + b"}" for relation in relations])


def etag_of(*parts: str) -> str:
    """Compute an entity tag from its parts."""
    return f'W/"{hashlib.sha256("|".join(parts).encode()).hexdigest()[:32]}"'


def is_known(etag: str, if_none_match: str | None) -> bool:
    """Whether the client's If-None-Match has this tag (RFC 9110, section 13.1.2)."""
    return if_none_match is not None and etag in (tag.strip() for tag in if_none_match.split(","))


def not_modified(etag: str) -> Response:
    """Build the answer to a client that has the current version."""
    return Response(status_code=304, headers={"ETag": etag})


def name_of(value: object, field: str) -> TableName:
    """Parse a name from a body; Invalid when it has another shape."""
    if (
        not isinstance(value, dict)
        or not isinstance(value.get("namespace"), list)
        or not isinstance(value.get("name"), str)
    ):
        raise Invalid(f"{field}: expected an object with namespace and name")
    return TableName(namespace_in(value["namespace"], field), value["name"])


def namespace_in(value: object, field: str) -> Namespace:
    """Parse a namespace from a body; Invalid when it is not a list of strings."""
    if not isinstance(value, list) or not value or not all(isinstance(part, str) for part in value):
        raise Invalid(f"{field}: expected a list of strings")
    return tuple(value)


def objects_in(body: dict[str, Any], key: str) -> Sequence[dict[str, Any]]:
    """Read a list of objects from a body; empty when missing or null, Invalid for another type."""
    value = body.get(key)
    value = [] if value is None else value
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Invalid(f"{key}: expected a list of objects")
    return value


def text_in(body: dict[str, Any], key: str) -> str:
    """Read a string from a body; Invalid when missing or of another type."""
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise Invalid(f"{key}: expected a string")
    return value


def optional_text_in(body: dict[str, Any], key: str) -> str | None:
    """Read a string from a body; None when missing, Invalid for another type."""
    return None if body.get(key) is None else text_in(body, key)


def flag_in(body: dict[str, Any], key: str) -> bool:
    """Read a boolean from a body; False when missing or null, Invalid for another type."""
    value = body.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise Invalid(f"{key}: expected true or false")
    return value


def texts_in(body: dict[str, Any], key: str) -> Sequence[str]:
    """Read a list of strings from a body; empty when missing, Invalid for another type."""
    value = body.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Invalid(f"{key}: expected a list of strings")
    return value


def object_in(body: dict[str, Any], key: str) -> dict[str, Any]:
    """Read an object from a body; Invalid when missing or of another type."""
    value = body.get(key)
    if not isinstance(value, dict):
        raise Invalid(f"{key}: expected an object")
    return value


def strings_in(body: dict[str, Any], key: str) -> dict[str, str]:
    """Read a map of strings from a body; empty when missing, Invalid for another type."""
    value = body.get(key) or {}
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise Invalid(f"{key}: expected an object of strings")
    return value
