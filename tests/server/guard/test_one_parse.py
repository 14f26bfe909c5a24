"""The guard judges the request that the route gets: one parse, whatever a client writes to tell two readers apart."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from catalog.access.privileges import SERVER, Privilege, Securable
from catalog.credentials.storage_config import PREFIX as STORAGE
from catalog.history.commit import is_creating
from catalog.names import CatalogName, TableName, parse_namespace
from server.api.upgrades import UpgradeManyIn
from server.guard import route_rules
from server.guard.requirements import GuardedRequest
from server.iceberg.requests import flag_in, name_of
from server.service.hive.hive_state import split_name
from server.service.hive.operations import database_of
from server.service.queries.statement import parse_statement
from tests.databases import open_database
from tests.factories import LAKE
from tests.server.guard.recording import Record, Recording, named, recording
from tests.server.guard.route_requests import BODIES, QUERIES
from tests.server.guarded import guarded

Needs = set[tuple[Privilege | None, Securable]]
TTL = "firn.ttl.max-age"
READ, WRITE, CREATE, DROP = Privilege.READ, Privilege.WRITE, Privilege.CREATE, Privilege.DROP


def _namespace(text: str | None) -> Securable:
    return Securable(LAKE, parse_namespace(text) if text else ())


def _home_of(name: TableName) -> Securable:
    return Securable(LAKE, name.namespace)


def _table(name: TableName) -> Securable:
    return Securable.of(LAKE, name)


def _upgrades(values: Mapping[str, Any]) -> Needs:
    body: UpgradeManyIn = values["body"]
    on = [Securable(LAKE, (database,) if (database := database_of(name)) else ()) for name in body.tables]
    needed = [READ] if body.dry_run else [READ, CREATE, *([WRITE] if TTL in body.properties else [])]
    return {(privilege, securable) for securable in on for privilege in needed}


def _upgrade(values: Mapping[str, Any]) -> Needs:
    database, name = split_name(values["full_name"])
    table = _table(TableName((database,), name))
    by_properties = {(WRITE, table)} if TTL in values["body"].properties else set()
    return {(CREATE, Securable(LAKE, (database,))), (READ, table), *by_properties}


def _policy_change(values: Mapping[str, Any]) -> Needs:
    on, body = _namespace(values["namespace"]), values["body"]
    return {(Privilege.MAINTAIN, on)} | ({(WRITE, on)} if TTL in {*body.set, *body.remove} else set())


def _conversion(values: Mapping[str, Any], name: str | None) -> Needs:
    database, own = split_name(values["full_name"])
    target = (database,) if name is None else TableName.parse(name).namespace
    return {(READ, _table(TableName((database,), own))), (CREATE, Securable(LAKE, target))}


def _registered(values: Mapping[str, Any]) -> Needs:
    on = Securable(LAKE, values["namespace"])
    return {(CREATE, on), (READ, Securable(LAKE))} | ({(DROP, on)} if flag_in(values["body"], "overwrite") else set())


def _renamed(values: Mapping[str, Any]) -> Needs:
    source, to = (name_of(values["body"].get(key), key) for key in ("source", "destination"))
    return {(DROP, _table(source)), (READ, _table(source)), (CREATE, _home_of(to))}


def _committed(values: Mapping[str, Any]) -> Needs:
    name: TableName = named(values, "name")
    creating = is_creating(named(values, "body").get("requirements", []))
    return {(CREATE, _home_of(name))} if creating else {(WRITE, _table(name))}


def _queried(values: Mapping[str, Any]) -> Needs:
    body = values["body"]
    named = [table.parts for table in parse_statement(body.statement, most_rows=1).tables]
    return {(READ, Securable(CatalogName(body.catalog), parts[:-1], parts[-1])) for parts in named if len(parts) == 2}


# What a route needs on account of its body or query, by the very arguments that it is called with.
BY_CONTENT: Mapping[str, Callable[[Mapping[str, Any]], Needs]] = {
    "/api/v1 PATCH /catalogs/{catalog}/properties": lambda values: (
        {(CREATE, SERVER)}
        if any(key.startswith(STORAGE) for key in (*values["body"].set, *values["body"].remove))
        else {(Privilege.MAINTAIN, Securable(LAKE))}
    ),
    "/api/v1 POST /catalogs/{catalog}/imports": lambda values: (
        {(CREATE, SERVER)} if values["body"].allow_locations else {(Privilege.MAINTAIN, Securable(LAKE))}
    ),
    "/api/v1 POST /catalogs/{catalog}/namespaces": lambda values: {
        (CREATE, Securable(LAKE, parse_namespace(values["body"].name)[:-1]))
    },
    "/api/v1 POST /catalogs/{catalog}/tables": lambda values: {
        (CREATE, _home_of(TableName.parse(values["body"].name)))
    },
    "/api/v1 POST /catalogs/{catalog}/hive/upgrade": _upgrades,
    "/api/v1 GET /catalogs/{catalog}/hive/{full_name}/convert": lambda values: _conversion(values, values["name"]),
    "/api/v1 POST /catalogs/{catalog}/hive/{full_name}/convert": lambda values: _conversion(
        values, None if values["body"] is None else values["body"].name
    ),
    "/api/v1 POST /catalogs/{catalog}/tables/{table}/register": lambda values: (
        {(CREATE, _home_of(values["table"])), (READ, Securable(LAKE))}
        | ({(DROP, _home_of(values["table"]))} if values["body"].overwrite else set())
    ),
    "/api/v1 POST /catalogs/{catalog}/tables/{table}/log/columns": lambda values: {(WRITE, _table(values["table"]))},
    "/api/v1 POST /catalogs/{catalog}/tables/{table}/log/quarantine/writer": lambda values: {
        (WRITE, _table(values["table"]))
    },
    "/api/v1 POST /catalogs/{catalog}/dropped/{entry_id}/undrop": lambda values: (
        set()
        if values["body"] is None or values["body"].to is None
        else {(CREATE, _home_of(TableName.parse(values["body"].to)))}
    ),
    "/api/v1 GET /catalogs/{catalog}/namespaces": lambda values: {(None, _namespace(values["parent"]))},
    "/api/v1 GET /catalogs/{catalog}/policy": lambda values: {(None, _namespace(values["namespace"]))},
    "/api/v1 GET /catalogs/{catalog}/trends": lambda values: {(None, _namespace(values["namespace"]))},
    "/api/v1 PUT /catalogs/{catalog}/policy": lambda values: {
        (Privilege.MAINTAIN, _namespace(values["namespace"])),
        (WRITE, _namespace(values["namespace"])),
    },
    "/api/v1 PATCH /catalogs/{catalog}/policy": _policy_change,
    "/api/v1 POST /catalogs/{catalog}/hive/{full_name}/upgrade": _upgrade,
    "/api/v1 POST /queries": _queried,
    "/iceberg/v1 GET /config": lambda values: (
        set() if values["warehouse"] is None else {(None, Securable(values["warehouse"]))}
    ),
    "/iceberg/v1 GET /{catalog}/namespaces": lambda values: {
        (None, Securable(LAKE, tuple(values["parent"].split("\x1f")) if values["parent"] else ()))
    },
    "/iceberg/v1 POST /{catalog}/namespaces": lambda values: {
        (CREATE, Securable(LAKE, tuple(values["body"]["namespace"][:-1])))
    },
    "/iceberg/v1 POST /{catalog}/namespaces/{namespace}/register": _registered,
    "/iceberg/v1 POST /{catalog}/namespaces/{namespace}/register-view": _registered,
    "/iceberg/v1 POST /{catalog}/tables/rename": _renamed,
    "/iceberg/v1 POST /{catalog}/views/rename": _renamed,
    "/iceberg/v1 POST /{catalog}/namespaces/{namespace}/tables/{table}": _committed,
    "/iceberg/v1 POST /{catalog}/transactions/commit": lambda values: {
        (WRITE, _table(name_of(change["identifier"], "identifier"))) for change in values["body"]["table-changes"]
    },
}

CONFUSED: tuple[Any, ...] = (
    *("false", "true", "False", "0", "", "secret", "secret.t", "open.t", "*", "firn.storage.vending", "NaN"),
    *(0, 1, -1, 0.0, 1.0, 1e400, True, False, None),
    *(
        {TTL: "1 h"},
        [TTL],
        {"firn.merge.mode": "auto"},
        [],
        {},
        [[]],
        [None],
        ["secret"],
        ["open", "secret"],
        {"type": "assert-create"},
        [{"type": "assert-create"}],
    ),
)
OTHER_FIELDS = (
    "allow_locations",
    "dry_run",
    "overwrite",
    "to",
    "name",
    "set",
    "remove",
    "tables",
    "properties",
    "settings",
    "requirements",
    "Dry_Run",
    "DRY_RUN",
)
CONTENT_TYPES = ("application/json", "application/json; charset=utf-16", "application/x+json", "text/plain", None)
ENCODINGS = ("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-32-le")
PLACES: Mapping[str, tuple[str, ...]] = {
    "table": ("secret.t", "secret.t.", "secret%2Et", "open.t", "secret.`t`", "secret%1Ft", "secret%2Ft.x", "SECRET.T"),
    "namespace": ("secret", "secret%1Finner", "secret%2Finner", "secret%2E", "SECRET", "open"),
    "full_name": ("secret.t", "SECRET.T", "secret.t.", "open.t"),
}


class _Apis:
    def __init__(self, recordings: Mapping[str, Recording], fixed: Mapping[str, str]) -> None:
        self.recordings, self.fixed = recordings, fixed
        self.loop = asyncio.new_event_loop()

    def send(self, key: str, places: Mapping[str, str], **how: Any) -> Record:
        prefix, method, template = key.split(" ")
        names = {**self.fixed, **_names(prefix), **places}
        path = template.replace(":path}", "}").format(**names)
        return self.loop.run_until_complete(self.recordings[prefix].send(method, f"{prefix}{path}", **how))


def _names(prefix: str) -> dict[str, str]:
    of_engines = prefix == "/iceberg/v1"
    return {
        "catalog": "lake",
        "namespace": "secret",
        "full_name": "secret.t",
        "group": "default",
        "role": "admin",
        "table": "t" if of_engines else "secret.t",
        "view": "v" if of_engines else "secret.v",
        "name": "admin",
        "optimizer_id": "x",
        "plan_id": "x",
        "writer": "w",
        "connection": "c",
        "rule": "r",
        "notification_id": "00000000-0000-4000-8000-000000000000",
        "consumer": "c",
        "pipeline": "p",
        "backfill_id": "00000000-0000-4000-8000-000000000000",
        "version": "1",
        "topic": "t",
        "number": "1",
        "partition": "0",
        "offset": "0",
    }


@pytest.fixture(scope="module")
def apis(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Apis]:
    directory = tmp_path_factory.mktemp("one-parse")
    shutil.copy(migrated_sqlite, directory / "firn.db")
    with open_database(f"sqlite:///{directory / 'firn.db'}") as opened:
        server = guarded(opened.database, directory)
        caller = server.services.access.token_checker.check(server.admin.text)
        fixed = {
            "job_id": str(server.job_id),
            "stream_id": str(server.stream_id),
            "operation_id": str(server.operation_id),
            "batch": str(server.operation_id),
            "entry_id": str(server.entry_id),
            "token_id": server.admin.id,
            "query_id": str(server.query_id),
            "saved_id": "00000000-0000-4000-8000-000000000000",
            "lease": f"{server.job_id}.1.token",
        }
        recordings = {prefix: recording(server.services, caller, prefix) for prefix in ("/api/v1", "/iceberg/v1")}
        sender = _Apis(recordings, fixed)
        yield sender
        sender.loop.close()


def _plain(key: str) -> dict[str, Any]:
    route = key.partition(" ")[2]
    how: dict[str, Any] = {"params": QUERIES.get(route)}
    return how if route not in BODIES else {**how, "json": BODIES[route]}


def test_every_route_whose_rule_looks_at_its_body_or_query_is_in_this_test(
    apis: _Apis, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: set[str] = set()
    current = ""

    def noting(read: Callable[..., Any]) -> Callable[..., Any]:
        def noted(request: GuardedRequest, *args: Any) -> Any:
            looked.add(current)
            return read(request, *args)

        return noted

    monkeypatch.setattr(GuardedRequest, "json", property(noting(vars(GuardedRequest)["json"].fget)))
    monkeypatch.setattr(GuardedRequest, "optional_model", noting(GuardedRequest.optional_model))
    monkeypatch.setattr(GuardedRequest, "parameter", noting(GuardedRequest.parameter))
    for prefix, needed in (("/api/v1", route_rules.API), ("/iceberg/v1", route_rules.ICEBERG)):
        for (method, path), rule in needed.items():
            current = f"{prefix} {method} {path}"
            if rule.public or rule.audit_target is not None:  # what the audit log says is no demand
                continue
            apis.send(current, {}, **_plain(current))
    assert looked == set(BY_CONTENT)


def _agree(key: str, record: Record) -> None:
    """What the route was called with is what the guard has judged."""
    request, values = record.request, record.values
    if values is None:
        return
    assert request is not None
    body = named(values, "body") if "body" in values or "call" in values else None
    if isinstance(body, BaseModel):
        assert request.model(type(body)) == body
    elif body is not None:
        assert body is request._body
    demanded = {(requirement.privilege, requirement.on) for requirement in record.requirements}
    assert BY_CONTENT[key](values) <= demanded


@st.composite
def _requests(draw: st.DrawFn) -> tuple[str, dict[str, str], dict[str, Any]]:
    key = draw(st.sampled_from(sorted(BY_CONTENT)))
    _, _, route = key.partition(" ")
    prefix = key.partition(" ")[0]
    choices = {name: PLACES[name] for name in ("table", "namespace", "full_name") if f"{{{name}}}" in route}
    if prefix == "/iceberg/v1" and "table" in choices:
        choices["table"] = ("t", "t.", "t%2E", "t%1Fx", "t%2Fx", "T")
    places = {name: draw(st.sampled_from(values)) for name, values in choices.items() if draw(st.booleans())}
    how: dict[str, Any] = {"headers": {}}
    plain = QUERIES.get(route, {})
    how["params"] = [
        (name, value)
        for name in (*plain, *draw(st.lists(st.sampled_from(["namespace", "parent", "warehouse", "name"]), max_size=2)))
        for value in draw(
            st.lists(
                st.sampled_from(["secret", "open", "lake", "", "secret.t", "open.t", "%1F"]), min_size=1, max_size=2
            )
        )
    ]
    if not key.partition(" ")[2].startswith("GET"):
        how["content"] = draw(_contents(BODIES.get(route, {})))
        kind = draw(st.sampled_from(CONTENT_TYPES))
        how["headers"] = {} if kind is None else {"Content-Type": kind}
        if draw(st.integers(0, 9)) == 0:
            how["headers"]["Content-Encoding"] = "gzip"
    return key, places, how


@st.composite
def _contents(draw: st.DrawFn, plain: Mapping[str, Any]) -> bytes:
    """A body with some values of other types, keys that are there twice, and in an encoding of its own."""
    pairs: list[tuple[str, Any]] = list(plain.items())
    for _ in range(draw(st.integers(0, 3))):
        field = draw(st.sampled_from([*plain, *OTHER_FIELDS]))
        at = draw(st.integers(0, len(pairs)))
        if draw(st.booleans()):
            pairs = [pair for pair in pairs if pair[0] != field]
            at = min(at, len(pairs))
        pairs.insert(at, (field, draw(st.sampled_from(CONFUSED))))
    text = "{" + ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in pairs) + "}"
    return text.encode(draw(st.sampled_from(ENCODINGS)))


@settings(max_examples=300)
@given(request=_requests())
def test_guard_and_route_see_the_same_request_however_it_is_written(
    apis: _Apis, request: tuple[str, dict[str, str], dict[str, Any]]
) -> None:
    key, places, how = request
    _agree(key, apis.send(key, places, **how))


@pytest.mark.parametrize("key", sorted(BY_CONTENT))
def test_a_plain_request_reaches_its_route(apis: _Apis, key: str) -> None:
    record = apis.send(key, {}, **_plain(key))
    assert record.values is not None
    _agree(key, record)
