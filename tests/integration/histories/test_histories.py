"""Random histories of the catalog over its own wire, several requests at once, against a plain model.

What requests that ran at the same time were answered, and what is there after them, must be what some order of them
gives. Answers are lost: the server dies before or after its commit, and the client sends the same request again under
the same key, to another server. Some requests arrive twice at once.
"""

from __future__ import annotations

import gc
import os
import shutil
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, permutations
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from catalog.ports.store import Database
from server.store.schema import upgrade_schema
from server.store.session import open_engine
from tests.databases import open_database
from tests.factories import LAKE
from tests.integration.histories.model import (
    NAMES,
    NAMESPACES,
    Append,
    CreateTable,
    CreateView,
    DropNamespace,
    DropTable,
    DropView,
    MakeNamespace,
    Name,
    RenameTable,
    RenameView,
    Request,
    SetProperty,
    SetViewProperty,
    State,
    Table,
    Together,
    Undrop,
    answered,
)
from tests.postgres_fixtures import PostgresServer
from tests.server.asgi import Client
from tests.server.faults import Killed
from tests.server.lake import COLUMNS, Lake, a_lake

ICEBERG, API = "/iceberg/v1/lake", "/api/v1/catalogs/lake"
VERSION = {
    "version-id": 1,
    "timestamp-ms": 1,
    "schema-id": 0,
    "summary": {},
    "default-namespace": ["a"],
    "representations": [{"type": "sql", "sql": "select 1 as id", "dialect": "spark"}],
}
FAR_MS = 2_000_000_000_000
names = st.builds(Name, st.sampled_from(NAMESPACES), st.sampled_from(NAMES))
numbers = count(1)


@dataclass(frozen=True)
class Sent:
    """A request as it goes over the wire, with its key."""

    method: str
    path: str
    body: Any = None
    key: str = field(default_factory=lambda: str(uuid4()))

    def to(self, client: Client) -> httpx.Response:
        return client.request(self.method, self.path, json=self.body, headers={"Idempotency-Key": self.key})


class Histories(RuleBasedStateMachine):
    """Two servers over one database; after each step the catalog is in a state that an order of the requests gives."""

    def __init__(self, database: Database, directory: Path) -> None:
        super().__init__()
        self.lake: Lake = a_lake(database, directory)
        self.lake.services.namespaces.drop(LAKE, ("db",))
        self.servers = [self.lake.client, self.lake.elsewhere.client]
        self.pool = ThreadPoolExecutor(8)
        self.states = [State()]
        self.identities: dict[int, str] = {}
        """Of tables and views, by the model's numbers: the catalog's own uuids."""

    def teardown(self) -> None:
        self.pool.shutdown()

    # --- what clients do -----------------------------------------------------------------------------------------

    @rule(requests=st.lists(st.deferred(lambda: wanted), min_size=1, max_size=3), twins=st.lists(st.booleans()))
    def at_once(self, requests: list[Any], twins: list[bool]) -> None:
        """Several requests at one time, some of them twice."""
        built = [request for request in (self.request(want) for want in requests) if request is not None]
        sent = [self.sent(request) for request in built]
        twice = [*twins, *[False] * len(built)]
        futures = []
        for number, answer in enumerate(sent):
            keyed = not isinstance(built[number], Undrop)  # the management API takes no keys
            servers = self.servers if twice[number] and keyed else [self.servers[number % 2]]
            futures.append([self.pool.submit(answer.to, server) for server in servers])
        answers = [[future.result() for future in each] for each in futures]
        for each in answers:
            assert len({(answer.status_code, answer.content) for answer in each}) == 1, [answer.text for answer in each]
        self.conclude(built, [each[0] for each in answers])

    @rule(want=st.deferred(lambda: wanted), applied=st.booleans())
    def lost_and_repeated(self, want: Any, *, applied: bool) -> None:
        """The server dies at the request's commit; another one gets it again."""
        request = self.request(want)
        if request is None:
            return
        answer = self.sent(request)
        if applied:
            self.lake.database.kill_after_commit()
        else:
            self.lake.database.kill_before_commit()
        with suppress(Killed):
            answer.to(self.servers[0])
        self.lake.database.works_again()
        self.conclude([request], [answer.to(self.servers[1])])

    # --- from the model to the wire and back -------------------------------------------------------------------------

    def request(self, want: Any) -> Request | None:
        """A wish made into a request by what its client has read; None when there is nothing to wish it of."""
        state = self.states[0]
        if isinstance(want, PublishRequest):
            return want.build_request(state)
        request: Request = want
        return request

    def sent(self, request: Request) -> Sent:  # noqa: C901, PLR0911 (one case for each request)
        match request:
            case MakeNamespace(name):
                return Sent("POST", f"{ICEBERG}/namespaces", {"namespace": [name], "properties": {}})
            case DropNamespace(name):
                return Sent("DELETE", f"{ICEBERG}/namespaces/{name}")
            case CreateTable(name):
                body = {"name": name.name, "schema": COLUMNS}
                return Sent("POST", f"{ICEBERG}/namespaces/{name.namespace}/tables", body)
            case CreateView(name):
                body = {"name": name.name, "schema": COLUMNS, "view-version": VERSION, "properties": {}}
                return Sent("POST", f"{ICEBERG}/namespaces/{name.namespace}/views", body)
            case DropTable(name):
                return Sent("DELETE", table_path(name))
            case DropView(name):
                return Sent("DELETE", view_path(name))
            case RenameTable(source, to) | RenameView(source, to):
                kind = "tables" if isinstance(request, RenameTable) else "views"
                body = {"source": named(source), "destination": named(to)}
                return Sent("POST", f"{ICEBERG}/{kind}/rename", body)
            case Append():
                return Sent("POST", table_path(request.name), self.append_body(request))
            case Together(appends):
                changes = [{"identifier": named(append.name), **self.append_body(append)} for append in appends]
                return Sent("POST", f"{ICEBERG}/transactions/commit", {"table-changes": changes})
            case SetProperty(name, value):
                return Sent("POST", table_path(name), {"requirements": [], "updates": [set_k(value)]})
            case SetViewProperty(name, value):
                return Sent("POST", view_path(name), {"requirements": [], "updates": [set_k(value)]})
            case Undrop(identity):
                return Sent("POST", f"{API}/dropped/{self.entry(identity)}/undrop", {})

    def append_body(self, append: Append) -> Any:
        """What a writer sends that has read the table with this parent as its head."""
        snapshot = {
            "snapshot-id": append.snapshot,
            "sequence-number": append.snapshot,  # rises with each append anywhere
            "timestamp-ms": FAR_MS + append.snapshot,
            "manifest-list": f"{self.lake.warehouse.as_uri()}/lists/snap-{append.snapshot}.avro",
            "summary": {"operation": "append"},
            "schema-id": 0,
            **({} if append.parent is None else {"parent-snapshot-id": append.parent}),
        }
        requirements = [
            {"type": "assert-table-uuid", "uuid": self.identities[append.identity]},
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": append.parent},
        ]
        move = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": append.snapshot}
        return {"requirements": requirements, "updates": [{"action": "add-snapshot", "snapshot": snapshot}, move]}

    def entry(self, identity: int) -> str:
        """The id under which it is listed among what was dropped; one that nobody has when it is not."""
        names = [name for name, _ in self.states[0].dropped]
        place = next(
            (at for at, (_, dropped) in enumerate(self.states[0].dropped) if dropped.identity == identity), None
        )
        if place is None:
            return str(uuid4())
        later = names[place + 1 :].count(names[place])
        listed = self.servers[0].get(f"{API}/dropped").json()["items"]  # newest first
        ids: list[str] = [relation["id"] for relation in listed if relation["name"] == ".".join(names[place])]
        return ids[later]

    def conclude(self, requests: Sequence[Request], answers: Sequence[httpx.Response]) -> None:
        """Keep the states that some order of the requests gives; there must be one that is what is seen."""
        for request, answer in zip(requests, answers, strict=True):
            if isinstance(request, CreateTable | CreateView) and answer.is_success:
                metadata = answer.json()["metadata"]
                self.identities[request.identity] = metadata.get("table-uuid") or metadata["view-uuid"]
        statuses = [answer.status_code for answer in answers]
        possible: list[State] = []
        for order in permutations(range(len(requests))):
            state, status_by_number = self.states[0], {}
            for number in order:
                status_by_number[number], state = answered(state, requests[number])
            if [status_by_number[number] for number in range(len(requests))] == statuses:
                possible.append(state)
        seen = self.seen()
        assert any(self.looks(state) == seen for state in possible), (requests, statuses, seen)
        self.states = [next(state for state in possible if self.looks(state) == seen)]

    def looks(self, state: State) -> Any:
        """A state as clients see it."""
        return (
            state.namespaces,
            {name: (self.identities[table.identity], table.snapshots, table.k) for name, table in state.tables.items()},
            {name: (self.identities[view.identity], view.k) for name, view in state.views.items()},
            sorted(f"{name.namespace}.{name.name}" for name, _ in state.dropped),
        )

    def seen(self) -> Any:
        """The catalog as clients see it now."""
        client = self.servers[1]
        spaces = frozenset(namespace[0] for namespace in client.get(f"{ICEBERG}/namespaces").json()["namespaces"])
        tables, views = {}, {}
        for space in spaces:
            for identifier in client.get(f"{ICEBERG}/namespaces/{space}/tables").json()["identifiers"]:
                name = Name(space, identifier["name"])
                metadata = client.get(table_path(name)).json()["metadata"]
                ids = tuple(entry["snapshot-id"] for entry in metadata["snapshots"])
                tables[name] = (metadata["table-uuid"], ids, metadata.get("properties", {}).get("k"))
            for identifier in client.get(f"{ICEBERG}/namespaces/{space}/views").json()["identifiers"]:
                name = Name(space, identifier["name"])
                metadata = client.get(view_path(name)).json()["metadata"]
                views[name] = (metadata["view-uuid"], metadata.get("properties", {}).get("k"))
        listed = client.get(f"{API}/dropped").json()["items"]
        return spaces, tables, views, sorted(relation["name"] for relation in listed)


@dataclass(frozen=True)
class PublishRequest:
    """A request that depends on what its client reads first."""

    kind: str
    name: Name
    other: Name
    stale: bool

    def build_request(self, state: State) -> Request | None:
        if self.kind == "undrop":
            if not state.dropped:
                return None
            _, relation = state.dropped[-1 if self.stale else 0]
            if isinstance(relation, Table) and relation.snapshots:
                return None  # its snapshots have no files here, which undrop looks for
            return Undrop(relation.identity)
        names = [self.name] if self.kind == "append" else sorted({self.name, self.other})
        appends = [self._append(state, name) for name in names]
        present = tuple(append for append in appends if append is not None)
        if len(present) < len(names):
            return None
        return present[0] if self.kind == "append" else Together(present)

    def _append(self, state: State, name: Name) -> Append | None:
        table = state.tables.get(name)
        if table is None:
            return None
        parent = table.snapshots[-2] if self.stale and len(table.snapshots) > 1 else table.head
        return Append(name, table.identity, parent, next(numbers))


def fresh() -> st.SearchStrategy[int]:
    return st.builds(lambda: next(numbers))


wanted: st.SearchStrategy[Any] = st.one_of(
    st.builds(MakeNamespace, st.sampled_from(NAMESPACES)),
    st.builds(DropNamespace, st.sampled_from(NAMESPACES)),
    st.builds(CreateTable, names, fresh()),
    st.builds(CreateTable, names, fresh()),
    st.builds(CreateView, names, fresh()),
    st.builds(DropTable, names),
    st.builds(DropView, names),
    st.builds(RenameTable, names, names),
    st.builds(RenameView, names, names),
    st.builds(SetProperty, names, st.sampled_from("xyz")),
    st.builds(SetViewProperty, names, st.sampled_from("xyz")),
    *[
        st.builds(
            PublishRequest, st.sampled_from(["append", "append", "together", "undrop"]), names, names, st.booleans()
        )
    ]
    * 3,
)


EXAMPLES = 25 if "SOAK_SECONDS" in os.environ else 15
STEPS = settings(max_examples=EXAMPLES, stateful_step_count=25, deadline=None, phases=[Phase.explicit, Phase.generate])
# The services above them are the same: the second database has its own transactions to show.
FEWER = settings(STEPS, max_examples=EXAMPLES * 2 // 5)


@pytest.mark.model
def test_histories_on_sqlite(migrated_sqlite: Path, tmp_path: Path) -> None:
    places = count()

    class OnItsOwnDatabase(Histories):
        def __init__(self) -> None:
            directory = tmp_path / str(next(places))
            directory.mkdir()
            shutil.copy(migrated_sqlite, directory / "firn.db")
            self.opened = open_database(f"sqlite:///{directory / 'firn.db'}")
            super().__init__(self.opened.__enter__().database, directory)

        def teardown(self) -> None:
            super().teardown()
            self.opened.__exit__(None, None, None)

    run_state_machine_as_test(OnItsOwnDatabase, settings=STEPS)


@pytest.mark.model
@pytest.mark.postgres
def test_histories_on_postgres(postgres: PostgresServer, tmp_path: Path) -> None:
    places = count()
    migrated = postgres.new_database()
    engine = open_engine(postgres.url(migrated))
    upgrade_schema(engine)
    engine.dispose()

    class OnItsOwnDatabase(Histories):
        def __init__(self) -> None:
            directory = tmp_path / str(next(places))
            directory.mkdir()
            self.name = postgres.new_database(migrated)
            self.opened = open_database(postgres.url(self.name))
            super().__init__(self.opened.__enter__().database, directory)

        def teardown(self) -> None:
            super().teardown()
            self.opened.__exit__(None, None, None)
            with warnings.catch_warnings():  # what was killed has closed nothing: its connections end here
                warnings.simplefilter("ignore", ResourceWarning)
                gc.collect()
            postgres.drop_database(self.name)

    run_state_machine_as_test(OnItsOwnDatabase, settings=FEWER)


def named(name: Name) -> Any:
    return {"namespace": [name.namespace], "name": name.name}


def table_path(name: Name) -> str:
    return f"{ICEBERG}/namespaces/{name.namespace}/tables/{name.name}"


def view_path(name: Name) -> str:
    return f"{ICEBERG}/namespaces/{name.namespace}/views/{name.name}"


def set_k(value: str) -> Any:
    return {"action": "set-properties", "updates": {"k": value}}
