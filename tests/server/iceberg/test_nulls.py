"""A null in a request means what it means to Iceberg's Java parsers, and never becomes part of the metadata.

Clients write null for what they leave out (iceberg-go: `"requirements": null`). The tables below name every optional
field of the request bodies and what Java 1.12 does with a null there, by `core/…/rest/requests`, `ViewVersionParser`,
`MetadataUpdateParser`, `UpdateRequirementParser`, `SnapshotParser`, `SchemaParser`, `PartitionSpecParser`,
`SortOrderParser`, `StatisticsFileParser` and `EncryptedKeyParser`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catalog.iceberg.json import Json
from catalog.iceberg.table import TABLE_UPDATES
from catalog.iceberg.updates import parse_updates
from catalog.names import TableName
from tests.databases import OpenDatabase
from tests.factories import LAKE
from tests.server.iceberg.null_schema import SCHEMA
from tests.server.iceberg.nulls import (
    KINDER,
    MISSING,
    ORDER,
    REFUSED,
    SPEC,
    STATISTICS,
    TABLES,
    VERSION,
    VIEWS,
    Where,
    nulls,
    with_null,
    wrong,
)
from tests.server.lake import COLUMNS, PLAIN, Lake, a_lake, appended, definition


@pytest.fixture
def lake(opened_sqlite: OpenDatabase, tmp_path: Path) -> Lake:
    return a_lake(opened_sqlite.database, tmp_path)


CREATE: Json = {
    "name": "t",
    "location": None,
    "schema": SCHEMA,
    "partition-spec": SPEC,
    "write-order": ORDER,
    "properties": {"a": "b"},
    "stage-create": False,
}
CREATED: dict[Where, str] = {
    ("name",): REFUSED,
    ("location",): MISSING,
    ("schema",): REFUSED,
    ("schema", "schema-id"): MISSING,
    ("schema", "identifier-field-ids"): MISSING,
    ("schema", "fields"): REFUSED,
    ("schema", "fields", 0, "doc"): MISSING,
    ("schema", "fields", 0, "required"): REFUSED,
    ("partition-spec",): MISSING,
    ("partition-spec", "spec-id"): KINDER,
    ("partition-spec", "fields"): REFUSED,
    ("partition-spec", "fields", 0, "field-id"): KINDER,
    ("partition-spec", "fields", 0, "name"): REFUSED,
    ("write-order",): MISSING,
    ("write-order", "order-id"): KINDER,
    ("write-order", "fields", 0, "direction"): REFUSED,
    ("properties",): MISSING,
    ("properties", "a"): REFUSED,
    ("stage-create",): KINDER,
}


def test_creating_a_table(lake: Lake) -> None:
    answers: dict[Where, tuple[int, str]] = {}
    for number, where in enumerate(CREATED):
        name = f"t{number}"
        body = with_null(CREATE | {"name": name}, where)
        answer = lake.client.post(TABLES, json=body)
        answers[where] = (answer.status_code, answer.text[:200])
        if answer.is_success:
            assert nulls(answer.json()["metadata"]) == []
    assert wrong(CREATED, answers) == {}


COMMIT: Json = {
    "identifier": {"namespace": ["db"], "name": "plain"},
    "requirements": [],
    "updates": [{"action": "set-properties", "updates": {"a": "b"}}],
}
COMMITTED: dict[Where, str] = {
    ("identifier",): MISSING,
    ("requirements",): MISSING,
    ("updates",): MISSING,
    ("updates", 0, "action"): REFUSED,
    ("updates", 0, "updates"): REFUSED,
    ("updates", 0, "updates", "a"): REFUSED,
}


def test_committing(lake: Lake) -> None:
    """iceberg-go sends `"requirements": null` where it requires nothing."""
    lake.create()
    answers = {
        where: (answer.status_code, answer.text[:200])
        for where in COMMITTED
        for answer in [lake.client.post(f"{TABLES}/plain", json=with_null(COMMIT, where))]
    }
    assert wrong(COMMITTED, answers) == {}


def test_committing_to_several_tables(lake: Lake) -> None:
    lake.create()
    expected: dict[Where, str] = {
        ("table-changes",): REFUSED,
        ("table-changes", 0, "identifier"): REFUSED,
        ("table-changes", 0, "requirements"): MISSING,
        ("table-changes", 0, "updates"): MISSING,
    }
    path = "/iceberg/v1/lake/transactions/commit"
    answers = {
        where: (answer.status_code, answer.text[:200])
        for where in expected
        for answer in [lake.client.post(path, json=with_null({"table-changes": [COMMIT]}, where))]
    }
    assert wrong(expected, answers) == {}


REQUIREMENTS: list[tuple[Json, dict[str, str]]] = [
    ({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1}, {"ref": REFUSED, "snapshot-id": MISSING}),
    ({"type": "assert-table-uuid", "uuid": "x"}, {"uuid": REFUSED, "type": REFUSED}),
    ({"type": "assert-current-schema-id", "current-schema-id": 0}, {"current-schema-id": REFUSED}),
    ({"type": "assert-default-spec-id", "default-spec-id": 0}, {"default-spec-id": REFUSED}),
    ({"type": "assert-default-sort-order-id", "default-sort-order-id": 0}, {"default-sort-order-id": REFUSED}),
    ({"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2}, {"last-assigned-field-id": REFUSED}),
    (
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
        {"last-assigned-partition-id": REFUSED},
    ),
]


def test_requirements(lake: Lake) -> None:
    lake.create()
    for requirement, fields in REQUIREMENTS:
        for field, means in fields.items():
            body = COMMIT | {"requirements": [with_null(requirement, (field,))]}
            answer = lake.client.post(f"{TABLES}/plain", json=body)
            assert answer.is_success is (means is not REFUSED), (field, answer.text)
            assert answer.is_success or answer.status_code == 400


SNAPSHOT: Json = {
    "snapshot-id": 7,
    "parent-snapshot-id": None,
    "sequence-number": 1,
    "timestamp-ms": 1,
    "manifest-list": "file:/l.avro",
    "schema-id": 0,
    "first-row-id": None,
    "added-rows": None,
    "key-id": None,
    "summary": {"operation": "append"},
}
REF: Json = {
    "action": "set-snapshot-ref",
    "ref-name": "main",
    "type": "branch",
    "snapshot-id": 7,
    "min-snapshots-to-keep": 1,
    "max-snapshot-age-ms": 1,
    "max-ref-age-ms": 1,
}
UPDATES: list[tuple[Json, dict[Where, str]]] = [
    (
        {"action": "add-schema", "schema": SCHEMA, "last-column-id": 9},
        {
            ("last-column-id",): MISSING,
            ("schema",): REFUSED,
            ("schema", "schema-id"): MISSING,
            ("schema", "identifier-field-ids"): MISSING,
            ("schema", "fields", 0, "doc"): MISSING,
        },
    ),
    (
        {"action": "add-spec", "spec": SPEC},
        {
            ("spec",): REFUSED,
            ("spec", "spec-id"): KINDER,
            ("spec", "fields", 0, "field-id"): KINDER,
            ("spec", "fields", 0, "source-id"): REFUSED,
        },
    ),
    (
        {"action": "add-sort-order", "sort-order": ORDER},
        {("sort-order",): REFUSED, ("sort-order", "fields", 0, "transform"): REFUSED},
    ),
    (
        {"action": "add-snapshot", "snapshot": SNAPSHOT},
        {
            ("snapshot",): REFUSED,
            ("snapshot", "snapshot-id"): REFUSED,
            ("snapshot", "timestamp-ms"): REFUSED,
            ("snapshot", "manifest-list"): REFUSED,
            ("snapshot", "parent-snapshot-id"): KINDER,
            ("snapshot", "summary"): KINDER,
            ("snapshot", "summary", "operation"): REFUSED,
            ("snapshot", "schema-id"): MISSING,
            ("snapshot", "first-row-id"): MISSING,
            ("snapshot", "added-rows"): MISSING,
            ("snapshot", "key-id"): MISSING,
        },
    ),
    ({"action": "remove-snapshots", "snapshot-ids": [1]}, {("snapshot-ids",): REFUSED}),
    ({"action": "remove-snapshot-ref", "ref-name": "x"}, {("ref-name",): REFUSED}),
    ({"action": "set-location", "location": "file:/x"}, {("location",): REFUSED}),
    ({"action": "assign-uuid", "uuid": "x"}, {("uuid",): REFUSED}),
    ({"action": "upgrade-format-version", "format-version": 3}, {("format-version",): REFUSED}),
    ({"action": "set-current-schema", "schema-id": 0}, {("schema-id",): REFUSED}),
    ({"action": "set-default-spec", "spec-id": 0}, {("spec-id",): REFUSED}),
    ({"action": "set-default-sort-order", "sort-order-id": 0}, {("sort-order-id",): REFUSED}),
    ({"action": "remove-properties", "removals": ["a"]}, {("removals",): REFUSED}),
    ({"action": "remove-schemas", "schema-ids": []}, {("schema-ids",): REFUSED}),
    ({"action": "remove-partition-specs", "spec-ids": []}, {("spec-ids",): REFUSED}),
    (
        {"action": "set-statistics", "snapshot-id": 1, "statistics": STATISTICS},
        {
            ("snapshot-id",): MISSING,
            ("statistics",): REFUSED,
            ("statistics", "file-footer-size-in-bytes"): REFUSED,
            ("statistics", "blob-metadata"): REFUSED,
            ("statistics", "blob-metadata", 0, "fields"): REFUSED,
            ("statistics", "blob-metadata", 0, "properties"): KINDER,
        },
    ),
    ({"action": "remove-statistics", "snapshot-id": 1}, {("snapshot-id",): REFUSED}),
    (
        {"action": "set-partition-statistics", "partition-statistics": STATISTICS},
        {("partition-statistics",): REFUSED, ("partition-statistics", "statistics-path"): REFUSED},
    ),
    ({"action": "remove-partition-statistics", "snapshot-id": 1}, {("snapshot-id",): REFUSED}),
    (
        {
            "action": "add-encryption-key",
            "encryption-key": {
                "key-id": "k",
                "encrypted-key-metadata": "aGk=",
                "encrypted-by-id": "x",
                "properties": {"a": "b"},
            },
        },
        {
            ("encryption-key",): REFUSED,
            ("encryption-key", "encrypted-by-id"): MISSING,
            ("encryption-key", "properties"): KINDER,
        },
    ),
    ({"action": "remove-encryption-key", "key-id": "k"}, {("key-id",): REFUSED}),
]


def test_updates(lake: Lake) -> None:
    expected = {(update["action"], *where): means for update, fields in UPDATES for where, means in fields.items()}
    answers: dict[Where, tuple[int, str]] = {}
    for update, fields in UPDATES:
        for where in fields:
            name = f"t{len(answers)}"
            lake.services.tables.create(LAKE, definition(TableName(("db",), name)))
            place = f'"{lake.metadata(TableName(("db",), name))["location"]}/'
            body = json.dumps({"updates": [with_null(update, where)]}).replace('"file:/', place)
            answer = lake.client.post(f"{TABLES}/{name}", json=json.loads(body))
            answers[update["action"], *where] = (answer.status_code, answer.text[:200])
            if answer.is_success:
                assert nulls(answer.json()["metadata"]) == []
    assert wrong(expected, answers) == {}


def test_refs(lake: Lake) -> None:
    lake.create()
    lake.append(PLAIN)
    ref = REF | {"snapshot-id": lake.metadata(PLAIN)["current-snapshot-id"]}
    optional = ("min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms")
    expected = dict.fromkeys(optional, MISSING) | dict.fromkeys(("ref-name", "type", "snapshot-id"), REFUSED)
    for field, means in expected.items():
        answer = lake.client.post(f"{TABLES}/plain", json={"updates": [with_null(ref, (field,))]})
        assert answer.is_success is (means is MISSING), (field, answer.text)
    assert nulls(lake.metadata(PLAIN)["refs"]) == []


def test_every_update_that_the_server_knows_is_in_the_table() -> None:
    known = {update["action"] for update, _ in UPDATES} | {"set-properties", "set-snapshot-ref"}
    assert known == set(TABLE_UPDATES)


VIEW: Json = {"name": "v", "location": None, "schema": SCHEMA, "view-version": VERSION, "properties": {"a": "b"}}
VIEWED: dict[Where, str] = {
    ("name",): REFUSED,
    ("location",): MISSING,
    ("schema",): REFUSED,
    ("view-version",): REFUSED,
    ("view-version", "summary"): REFUSED,
    ("view-version", "representations"): REFUSED,
    ("view-version", "default-catalog"): MISSING,
    ("view-version", "default-namespace"): REFUSED,
    ("view-version", "timestamp-ms"): KINDER,
    ("view-version", "schema-id"): KINDER,
    ("properties",): MISSING,
}


def test_views(lake: Lake) -> None:
    answers: dict[Where, tuple[int, str]] = {}
    for number, where in enumerate(VIEWED):
        answer = lake.client.post(VIEWS, json=with_null(VIEW | {"name": f"v{number}"}, where))
        answers[where] = (answer.status_code, answer.text[:200])
        if answer.is_success:
            assert nulls(answer.json()["metadata"]) == []
    assert wrong(VIEWED, answers) == {}
    body = {"requirements": None, "updates": [{"action": "set-properties", "updates": {"x": "y"}}]}
    lake.client.post(f"{VIEWS}/v1", json=body).raise_for_status()
    version = VERSION | {"default-catalog": None, "version-id": 2}
    replaced = [
        {"action": "add-view-version", "view-version": version},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]
    answer = lake.client.post(f"{VIEWS}/v1", json={"updates": replaced})
    assert nulls(answer.raise_for_status().json()["metadata"]) == []


def test_namespaces(lake: Lake) -> None:
    path = "/iceberg/v1/lake/namespaces"
    created: list[tuple[Json, str]] = [
        ({"namespace": ["one"], "properties": None}, MISSING),
        ({"namespace": None, "properties": {}}, REFUSED),
        ({"namespace": ["two"], "properties": {"a": None}}, REFUSED),
    ]
    for body, means in created:
        assert lake.client.post(path, json=body).is_success is (means is MISSING), body
    changed: list[tuple[Json, str]] = [
        ({"updates": None, "removals": ["a"]}, MISSING),
        ({"updates": {"a": "b"}, "removals": None}, MISSING),
        ({"updates": {"a": None}}, REFUSED),
        ({"removals": [None]}, REFUSED),
    ]
    for body, means in changed:
        assert lake.client.post(f"{path}/one/properties", json=body).is_success is (means is MISSING), body


def test_registering_and_renaming(lake: Lake) -> None:
    lake.create()
    location = lake.services.tables.unregister(LAKE, PLAIN).metadata_location
    path = "/iceberg/v1/lake/namespaces/db/register"
    whole: Json = {"name": "back", "metadata-location": location, "overwrite": False}
    for field in ("name", "metadata-location"):
        assert lake.client.post(path, json=whole | {field: None}).status_code == 400
    lake.client.post(path, json=whole | {"overwrite": None}).raise_for_status()
    name: Json = {"namespace": ["db"], "name": "back"}
    for body in ({"source": None, "destination": name}, {"source": name, "destination": None}):
        assert lake.client.post("/iceberg/v1/lake/tables/rename", json=body).status_code == 400


def test_planning_a_scan(lake: Lake) -> None:
    lake.create()
    expected = {
        **dict.fromkeys(("snapshot-id", "start-snapshot-id", "end-snapshot-id", "min-rows-requested"), MISSING),
        **dict.fromkeys(("select", "stats-fields", "case-sensitive", "use-snapshot-schema"), MISSING),
        "filter": REFUSED,
    }
    for field, means in expected.items():
        answer = lake.client.post(f"{TABLES}/plain/plan", json={field: None})
        assert answer.is_success is (means is MISSING), (field, answer.text)
    assert lake.client.post(f"{TABLES}/plain/tasks", json={"plan-task": None}).status_code == 400


def test_a_default_that_is_null_is_no_default() -> None:
    """Java cannot load a table whose metadata says `"initial-default": null`."""
    column = {"id": 3, "name": "c", "type": "int", "required": False, "initial-default": None, "write-default": None}
    (update,) = parse_updates([{"action": "add-schema", "schema": {**COLUMNS, "fields": [*COLUMNS["fields"], column]}}])
    assert update["schema"]["fields"][-1] == {"id": 3, "name": "c", "type": "int", "required": False}


def test_a_repeated_commit_is_known_with_its_nulls(lake: Lake) -> None:
    lake.create()
    change = appended(PLAIN, lake.metadata(PLAIN))
    add, move = change.updates
    body = {"updates": [{**add, "snapshot": add["snapshot"] | {"parent-snapshot-id": None, "key-id": None}}, move]}
    for _ in range(2):
        answer = lake.client.post(f"{TABLES}/plain", json=body)
        assert len(answer.raise_for_status().json()["metadata"]["snapshots"]) == 1
