"""Whatever is sent, the answer is the specification's: never a 5xx, and after a refusal the table is as it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import httpx
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from catalog.errors import Unavailable
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.names import TableName
from server.app import create_app
from server.background.registry import build_background
from server.service.tables.metadata_files import Document, MetadataFiles
from tests.databases import OpenDatabase
from tests.factories import LAKE
from tests.server.default_settings import settings_in
from tests.server.iceberg.malformed import DIGITS, spoiled, text_of
from tests.server.lake import COLUMNS, Lake, a_lake, appended, set_property, snapshot_ids, snapshot_of
from tests.server.listening import listening

SQL: Json = {
    "version-id": 1,
    "timestamp-ms": 1,
    "schema-id": 0,
    "summary": {"engine-name": "spark"},
    "default-namespace": ["db"],
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
}
_numbers = count()


class Wire:
    """A server as a client sees it, and the lake behind it.

    No dataclass: Hypothesis tells of a failing example with all fields of those, here with the whole server's.
    """

    def __init__(self, client: httpx.Client, lake: Lake) -> None:
        self.client = client
        self.lake = lake
        self.unchanged: dict[str | None, list[Target]] = {}
        """Tables, by their stores, that refused what an example sent: they serve the next one."""

    def post(self, path: str, body: Any, **headers: str) -> int:
        """The status; that the body is an error of the specification's shape is checked here."""
        sent = {"content-type": "application/json", **headers}
        answer = self.client.post(f"/iceberg/v1/{path}", content=text_of(body), headers=sent)
        if answer.status_code >= 400:
            error = answer.json()["error"]
            assert answer.status_code < 500, (answer.text, text_of(body)[:1500])
            assert error["code"] == answer.status_code
            assert error["type"].endswith("Exception")
            assert error["message"]
        return answer.status_code


@pytest.fixture
def wire(opened_sqlite: OpenDatabase, tmp_path: Path) -> Iterator[Wire]:
    lake = a_lake(opened_sqlite.database, tmp_path)
    configured = settings_in(tmp_path / "data")
    app = create_app(configured, lake.services, build_background(configured, lake.services))
    with listening(app) as url, httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        yield Wire(client, lake)


fuzzed = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.generate],  # a smaller seed makes no smaller request
)
seeds = st.integers(0, 2**32)


def good_updates(metadata: Json, number: int) -> list[list[Json]]:
    """Updates that a commit may have besides its snapshot."""
    wider = {**metadata["schemas"][-1], "fields": [*metadata["schemas"][-1]["fields"]]}
    field = {"id": metadata["last-column-id"] + 1, "name": f"c{number}", "type": "int", "required": False}
    wider["fields"].append(field)
    snapshots = [snapshot["snapshot-id"] for snapshot in metadata["snapshots"]]
    return [
        [{"action": "add-schema", "schema": wider}, {"action": "set-current-schema", "schema-id": -1}],
        [set_property("a", "1"), {"action": "remove-properties", "removals": ["b", "gc.enabled"]}],
        [{"action": "remove-snapshots", "snapshot-ids": [1, *snapshots[:1]]}],
        [{"action": "set-snapshot-ref", "ref-name": "t", "type": "tag", "snapshot-id": (snapshots or [1])[0]}],
        [{"action": "add-spec", "spec": {"fields": [{"source-id": 1, "transform": "bucket[4]", "name": "b"}]}}],
        [
            {
                "action": "add-sort-order",
                "sort-order": {
                    "order-id": 1,
                    "fields": [
                        {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
                    ],
                },
            }
        ],
        [
            {
                "action": "set-statistics",
                "statistics": {"snapshot-id": 1, "statistics-path": "file:/x", "file-size-in-bytes": 1},
            }
        ],
        [{"action": "set-location", "location": metadata["location"]}, {"action": "assign-uuid", "uuid": "x"}],
        [{"action": "upgrade-format-version", "format-version": 3}, {"action": "remove-schemas", "schema-ids": [0]}],
    ]


def good_commit(rng: Random, name: TableName, metadata: Json, number: int) -> Json:
    """A commit that would be accepted, or nearly."""
    change: TableCommit = appended(name, metadata, summary={"firn.writer-id": "w", "firn.batch-id": str(number)})
    updates = [list(change.updates), list(change.updates), *good_updates(metadata, number)]
    picked = [update for group in rng.sample(updates, rng.choice([1, 1, 2])) for update in group]
    numbers: list[Json] = [
        {"type": "assert-current-schema-id", "current-schema-id": metadata["current-schema-id"]},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": metadata["last-column-id"]},
    ]
    return {"requirements": [*change.requirements, *rng.sample(numbers, 1)], "updates": picked}


@dataclass(frozen=True)
class Target:
    """A table to commit to, which no example has changed yet, and the names around it."""

    store: str | None
    name: TableName
    number: int

    @property
    def path(self) -> str:
        return f"lake/namespaces/{'%1F'.join(self.name.namespace)}/tables/{self.name.name}"


def a_target(wire: Wire, store: str | None) -> Target:
    if unchanged := wire.unchanged.get(store):
        return unchanged.pop()
    number, lake = next(_numbers), wire.lake
    if store is None:
        name = TableName(("db",), f"p{number}")
        lake.create(name)
    else:
        name = TableName(("db", f"o{number}"), store)
        lake.create_keyed(TableName(("db",), f"o{number}"))
    lake.append(name)
    return Target(store, name, number)


def keep(wire: Wire, target: Target) -> None:
    wire.unchanged.setdefault(target.store, []).append(target)


@pytest.mark.parametrize("store", [None, "base", "change"])
@fuzzed
@given(seed=seeds)
@example(seed=3257)
def test_a_malformed_commit_changes_nothing(wire: Wire, store: str | None, seed: int) -> None:
    rng, lake = Random(seed), wire.lake
    target = a_target(wire, store)
    before = pointer(lake, target.name)
    body = spoiled(good_commit(rng, target.name, lake.metadata(target.name), target.number), rng)
    headers = {"idempotency-key": str(uuid4())} if rng.random() < 0.5 else {}
    if is_refused := wire.post(target.path, body, **headers) >= 400:
        assert pointer(lake, target.name) == before
    lake.append(target.name)
    if is_refused:
        keep(wire, target)


@fuzzed
@given(seed=seeds)
def test_a_malformed_transaction_changes_nothing(wire: Wire, seed: int) -> None:
    rng, lake = Random(seed), wire.lake
    targets = [a_target(wire, rng.choice([None, "base", "change"])) for _ in range(2)]
    before = [pointer(lake, target.name) for target in targets]
    changes = [good_commit(rng, target.name, lake.metadata(target.name), target.number) for target in targets]
    named = [
        {"identifier": {"namespace": list(target.name.namespace), "name": target.name.name}, **change}
        for target, change in zip(targets, changes, strict=True)
    ]
    if wire.post("lake/transactions/commit", spoiled({"table-changes": named}, rng)) >= 400:
        assert [pointer(lake, target.name) for target in targets] == before
        for target in targets:
            keep(wire, target)


def pointer(lake: Lake, name: TableName) -> str | None:
    return lake.services.tables.load(LAKE, name).metadata_location


@fuzzed
@given(seed=seeds)
def test_a_malformed_view_commit_changes_nothing(wire: Wire, seed: int) -> None:
    rng, number = Random(seed), next(_numbers)
    view = {"name": f"v{number}", "schema": COLUMNS, "view-version": SQL, "properties": {"a": "b"}}
    assert wire.post("lake/namespaces/db/views", view) == 200
    version = {**SQL, "representations": [{"type": "sql", "sql": "select 2", "dialect": "spark"}]}
    replaced: list[Json] = [
        {"action": "add-view-version", "view-version": version},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]
    properties: list[Json] = [set_property("a", "1"), {"action": "remove-properties", "removals": ["b"]}]
    path = f"/iceberg/v1/lake/namespaces/db/views/v{number}"
    before = wire.client.get(path).json()["metadata-location"]
    body = {"updates": rng.choice([replaced, properties]), "requirements": []}
    status = wire.post(path.removeprefix("/iceberg/v1/"), spoiled(body, rng))
    answer = wire.client.get(path)
    assert answer.status_code == 200
    if status >= 400:
        assert answer.json()["metadata-location"] == before


SPEC_FIELDS = [{"source-id": 1, "transform": "bucket[4]", "name": "b", "field-id": 1000}]
ORDER_FIELDS = [{"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}]


def making_requests(name: str, location: str) -> list[tuple[str, Json]]:
    """Requests that make something, or change what there is of it."""
    table = {
        "name": name,
        "schema": COLUMNS,
        "partition-spec": {"fields": SPEC_FIELDS},
        "write-order": {"order-id": 1, "fields": ORDER_FIELDS},
        "location": location,
        "properties": {"a": "b"},
    }
    identifier = {"namespace": ["db"], "name": name}
    return [
        ("lake/namespaces/db/tables", table),
        ("lake/namespaces/db/tables", {**table, "properties": {"firn.primary-key": "id"}}),
        ("lake/namespaces/db/tables", {**table, "stage-create": True}),
        (f"lake/namespaces/db/tables/{name}", staged_table(location)),
        (f"lake/namespaces/db/tables/{name}", staged_table(location)),
        ("lake/namespaces/db/views", {"name": name, "schema": COLUMNS, "view-version": SQL, "properties": {}}),
        ("lake/namespaces", {"namespace": [name], "properties": {"a": "b"}}),
        ("lake/namespaces/db/properties", {"updates": {"a": "b"}, "removals": ["c"]}),
        ("lake/namespaces/db/register", {"name": name, "metadata-location": f"file:/nowhere/{name}"}),
        ("lake/tables/rename", {"source": identifier, "destination": identifier}),
        ("lake/views/rename", {"source": identifier, "destination": identifier}),
        ("lake/namespaces/db/tables/x/metrics", {"report-type": "scan-report"}),
    ]


def staged_table(location: str) -> Json:
    """The commit that creates a table."""
    return {
        "requirements": [{"type": "assert-create"}],
        "updates": [
            {"action": "assign-uuid", "uuid": "11111111-1111-4111-8111-111111111111"},
            {"action": "set-location", "location": location},
            {"action": "add-schema", "schema": COLUMNS},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": {"fields": SPEC_FIELDS}},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": ORDER_FIELDS}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
        ],
    }


@fuzzed
@given(seed=seeds)
def test_malformed_requests_that_make_something_are_refused_in_words(wire: Wire, seed: int) -> None:
    """What they do make can be loaded."""
    rng, number = Random(seed), next(_numbers)
    name = f"m{number}"
    path, body = rng.choice(making_requests(name, f"{wire.lake.warehouse.as_uri()}/{name}"))
    status = wire.post(path, spoiled(body, rng))
    if status == 200 and path.endswith(f"tables/{name}"):
        wire.lake.append(TableName(("db",), name))


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[1]", 400),
        (b"\xff", 400),
        (b"[" * 50_000, 400),
        (b'{"a": ' + b"9" * 5_000 + b"}", 400),
    ],
    ids=["nothing", "half", "list", "bytes", "deep", "long"],
)
def test_what_is_no_json_is_refused_in_the_shape_of_the_specification(wire: Wire, sent: bytes, status: int) -> None:
    answer = wire.client.post(
        "/iceberg/v1/lake/tables/rename", content=sent, headers={"content-type": "application/json"}
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, status)


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "lake/nothing", 404), ("PUT", "config", 405)])
def test_what_is_no_route_is_refused_in_the_shape_of_the_specification(
    wire: Wire, method: str, path: str, status: int
) -> None:
    answer = wire.client.request(method, f"/iceberg/v1/{path}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, status)


@pytest.mark.parametrize(("digits", "status"), [(DIGITS, 400), (DIGITS[:400], 404)])
def test_a_name_of_many_digits_is_no_pinned_table(wire: Wire, digits: str, status: int) -> None:
    wire.lake.create_keyed(TableName(("db",), "orders"))
    answer = wire.client.get(f"/iceberg/v1/lake/namespaces/db%1Forders/tables/base_at_{digits}_0")
    assert answer.status_code == status


def test_a_commit_whose_table_cannot_be_read_back_is_unknown_and_not_refused(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a 409 the client would delete the files that the table now stands on."""
    target = a_target(wire, None)
    change = appended(target.name, wire.lake.metadata(target.name))
    loads, seen = MetadataFiles.load, count()

    def fails_after_the_commit(files: MetadataFiles, location: str) -> Document:
        if next(seen):
            raise Unavailable(f"cannot read {location}")
        return loads(files, location)

    with monkeypatch.context() as broken:
        broken.setattr(MetadataFiles, "load", fails_after_the_commit)
        body = {"requirements": change.requirements, "updates": change.updates}
        answer = wire.client.post(f"/iceberg/v1/{target.path}", json=body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "CommitStateUnknownException")
    assert snapshot_ids(wire.lake.metadata(target.name))[-1] == snapshot_of(change)
