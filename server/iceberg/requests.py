"""What all routes of the Iceberg REST catalog share: names out of URLs, the caller's headers, spliced answers.

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
    known: dict[str, Any] | None = getattr(request.state, "json_body", None)
    if known is None:
        known = request.state.json_body = _parse_object(await request.body())
    return known


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
    """The services that server.container has put together."""
    return cast("Services", request.app.state.services)


def caller_of(request: Request) -> Caller | None:
    """Who is asking; None where access control is off."""
    found: Caller | None = getattr(request.state, "caller", None)
    return found


async def visible_to(request: Request) -> Visibility:
    """What the caller may see."""
    return Visibility.to(caller_of(request))


async def commits(request: Request) -> None:
    """Mark a request as a commit: see errors.refused."""
    request.state.commits = True


async def catalog_name(catalog: Annotated[str, Path()]) -> CatalogName:
    """The prefix of the path."""
    return CatalogName(catalog)


async def namespace_of(namespace: Annotated[str, Path()]) -> Namespace:
    """The namespace of the path."""
    return decode_namespace(namespace)


async def table_name(namespace: Annotated[str, Path()], table: Annotated[str, Path()]) -> TableName:
    """The table of the path."""
    return TableName(decode_namespace(namespace), table)


async def view_name(namespace: Annotated[str, Path()], view: Annotated[str, Path()]) -> TableName:
    """The view of the path."""
    return TableName(decode_namespace(namespace), view)


def lease_in(request: Request) -> Lease | None:
    """The lease a job's request comes with."""
    lease = request.headers.get("x-firn-lease")
    return None if lease is None else Lease.parse(lease)


async def lease_of(request: Request) -> Lease | None:
    """The same, for routes."""
    return lease_in(request)


async def engine_of(request: Request) -> str | None:
    """What the client says it is: `Apache Iceberg 1.12.0`, without the commit it was built from."""
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
    """How much of a list is wanted; without a token everything is, as the specification says."""

    model_config = ConfigDict(extra="ignore")
    pageToken: str | None = None  # noqa: N815 (the specification's name)
    pageSize: int | None = None  # noqa: N815 (the specification's name)

    @property
    def limit(self) -> int:
        """How many entries a page holds."""
        if self.pageSize is not None and self.pageSize < 1:
            raise Invalid(f"pageSize must be at least 1, not {self.pageSize}")
        return min(self.pageSize or DEFAULT_PAGE, MAX_PAGE)

    @property
    def cursor(self) -> str | None:
        """Where to go on; an empty token begins."""
        return self.pageToken or None

    @property
    def wants_all(self) -> bool:
        """Whether the client does not know of pages."""
        return self.pageToken is None


PageDep = Annotated[PageParams, Query()]


@dataclass(frozen=True, slots=True)
class TableCall:
    """A request about one table, read by a single dependency: each one takes longer than the query behind a load."""

    request: Request
    services: Services
    catalog: CatalogName
    name: TableName

    @classmethod
    def of(cls, request: Request) -> TableCall:
        """Out of the path."""
        path = request.path_params
        name = TableName(decode_namespace(path["namespace"]), path["table"])
        return cls(request, request.app.state.services, CatalogName(path["catalog"]), name)

    def header(self, name: str) -> str | None:
        """The header of this name in small letters; None without one."""
        return self.request.headers.get(name)


async def table_call(request: Request) -> TableCall:
    """For the routes that are asked most."""
    return TableCall.of(request)


TableCallDep = Annotated[TableCall, Depends(table_call)]


def json_response(value: object, status: int = 200) -> Response:
    """Any value as JSON."""
    return Response(orjson.dumps(value), status, media_type="application/json")


def loaded_response(
    metadata_location: str | None,
    text: bytes,
    *,
    etag: str | None = None,
    config: Mapping[str, str] | None = None,
    more: Mapping[str, object] | None = None,
) -> Response:
    """A LoadTableResult or LoadViewResult around metadata as it is stored, without decoding it."""
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
    """A page of a namespace's relations, or for a client that knows no pages all of them."""

    def listing(limit: int, cursor: str | None) -> Page[ListedRelation]:
        return visible.page(
            lambda size, start: services.views.list(catalog, namespace, kinds, limit=size, cursor=start),
            lambda one: visible.sees(get_listed_securable(catalog, namespace, one)),
            within=services.access.namespace(catalog, namespace) if visible.rights else Securable(catalog, namespace),
            limit=limit,
            cursor=cursor,
        )

    limit = page.limit  # refused when it is none, wanted or not
    found = listing(MAX_PAGE if page.wants_all else limit, page.cursor)
    listed = list(found.items)
    while page.wants_all and found.next_cursor is not None:
        found = listing(MAX_PAGE, found.next_cursor)
        listed.extend(found.items)
    rest = orjson.dumps({"next-page-token": found.next_cursor})
    content = b'{"identifiers":[' + _identifiers(namespace, listed) + b"]," + rest[1:]
    return Response(content, media_type="application/json")


def _identifiers(namespace: Namespace, listed: Sequence[ListedRelation]) -> bytes:
    """Names with their namespace, spliced: thousands of dictionaries take longer than the query."""
    before = b'{"namespace":' + orjson.dumps(namespace) + b',"name":'
    return b",".join([before + orjson.dumps(one.name) + b"}" for one in listed])


def etag_of(*parts: str) -> str:
    """A tag for what these parts determine."""
    return f'W/"{hashlib.sha256("|".join(parts).encode()).hexdigest()[:32]}"'


def is_known(etag: str, if_none_match: str | None) -> bool:
    """Whether the client has named this tag, alone or among others (RFC 9110, section 13.1.2)."""
    return if_none_match is not None and etag in (one.strip() for one in if_none_match.split(","))


def not_modified(etag: str) -> Response:
    """What a client that has it already is answered."""
    return Response(status_code=304, headers={"ETag": etag})


def name_of(value: object, where: str) -> TableName:
    """A name out of a body; Invalid when it has another shape."""
    if (
        not isinstance(value, dict)
        or not isinstance(value.get("namespace"), list)
        or not isinstance(value.get("name"), str)
    ):
        raise Invalid(f"{where}: expected an object with namespace and name")
    return TableName(namespace_in(value["namespace"], where), value["name"])


def namespace_in(value: object, where: str) -> Namespace:
    """A namespace out of a body; Invalid when it is no list of strings."""
    if not isinstance(value, list) or not value or not all(isinstance(part, str) for part in value):
        raise Invalid(f"{where}: expected a list of strings")
    return tuple(value)


def objects_in(body: dict[str, Any], key: str) -> Sequence[dict[str, Any]]:
    """A list of objects out of a body; empty when it is missing or null, Invalid when it is something else."""
    value = body.get(key)
    value = [] if value is None else value
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Invalid(f"{key}: expected a list of objects")
    return value


def text_in(body: dict[str, Any], key: str) -> str:
    """A string out of a body; Invalid when it is missing or something else."""
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise Invalid(f"{key}: expected a string")
    return value


def optional_text_in(body: dict[str, Any], key: str) -> str | None:
    """A string out of a body; None when it is missing, Invalid when it is something else."""
    return None if body.get(key) is None else text_in(body, key)


def flag_in(body: dict[str, Any], key: str) -> bool:
    """A boolean out of a body; False when it is missing or null, Invalid when it is something else."""
    value = body.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise Invalid(f"{key}: expected true or false")
    return value


def texts_in(body: dict[str, Any], key: str) -> Sequence[str]:
    """A list of strings out of a body; empty when it is missing, Invalid when it is something else."""
    value = body.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Invalid(f"{key}: expected a list of strings")
    return value


def object_in(body: dict[str, Any], key: str) -> dict[str, Any]:
    """An object out of a body; Invalid when it is missing or something else."""
    value = body.get(key)
    if not isinstance(value, dict):
        raise Invalid(f"{key}: expected an object")
    return value


def strings_in(body: dict[str, Any], key: str) -> dict[str, str]:
    """A map of strings out of a body; empty when it is missing, Invalid when it is something else."""
    value = body.get(key) or {}
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise Invalid(f"{key}: expected an object of strings")
    return value
