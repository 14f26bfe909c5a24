"""Tables with partial columns on a server in this process: images, layers and adoptions agree with a plain dict.

See docs/protocols.md, rule 1.7.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from random import Random
from typing import Any

import pytest
from pyiceberg.table import StaticTable

import firn
from catalog.errors import CommitRefused, Invalid
from catalog.files.data_file import DataFileEntry
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.keyed.spec import KeySpec
from catalog.names import TableName
from firn.protocol.leases import Outcome
from firn.protocol.partial import SET, SET_ID
from optimizer.client import ServerApi, connect
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from server.service.tables.tables import TableDefinition
from tests.databases import ON_SQLITE
from tests.factories import LAKE
from tests.partial_model import PartialChange, PartialModel, make_random_change, name_properties
from tests.server.lake import BASE, CHANGE, COLUMNS, ORDERS, Lake, altered, set_property
from tests.server.listening import listening
from tests.server.service.images.keyed_lake import KeyedLake, snapshot_ids, write_rows
from tests.server.service.images.statements import plan_statement
from tests.server.service.images.test_adoption import lease_merge, run

pytestmark = ON_SQLITE

NAMES = ("id", "note", "email", "visits")
WRITERS = [frozenset({"note"}), frozenset({"email"}), frozenset({"visits", "note"})]
STEPS = 14
ADDED = [
    {"id": 3, "name": "email", "type": "string", "required": False},
    {"id": 4, "name": "visits", "type": "long", "required": False},
]
WIDE: Json = {**COLUMNS, "fields": [*COLUMNS["fields"], *ADDED]}


def create(lake: Lake, properties: dict[str, str], *, spec: Json | None = None, schema: Json = WIDE) -> None:
    key = KeySpec.from_properties({"firn.primary-key": "id", **properties})
    assert key is not None
    definition = TableDefinition(name=ORDERS, schema=schema, partition_spec=spec, properties=properties)
    lake.services.keyed.create(LAKE, definition, key)


@pytest.fixture(params=["2", "3"])
def orders(lake: Lake, request: pytest.FixtureRequest) -> Iterator[KeyedLake]:
    create(lake, {"firn.partial": "true", "format-version": request.param, "firn.read.max-wait": "60 s"})
    yield KeyedLake(lake)
    lake.services.images.stop()
    lake.services.image_writes.stop()


@pytest.fixture
def api(orders: KeyedLake) -> Iterator[ServerApi]:
    with listening(orders.lake.client.app) as url:
        yield connect(url)


def append(orders: KeyedLake, name: TableName, rows: Sequence[dict[str, Any]], **summary: str) -> None:
    metadata = orders.lake.metadata(name)
    entry = DataFileEntry(stats=write_rows(metadata, rows))
    now_ms = metadata["last-updated-ms"] + 1
    snapshot_update = write_snapshot(
        Storage(), metadata, [entry], (), snapshot_id=next(snapshot_ids), now_ms=now_ms, summary_extra=summary
    )
    orders.lake.commit(
        TableCommit(name=name, requirements=snapshot_update.requirements(), updates=snapshot_update.updates())
    )


def send(orders: KeyedLake, *changes: PartialChange, **summary: str) -> None:
    """One commit to the change store, as a writer sends that names columns by their ids."""
    ids = {field["name"]: field["id"] for field in current_schema(orders.lake.metadata(BASE))["fields"]}
    rows = []
    for change in changes:
        set_ids = (
            None if change.set_columns is None else ",".join(str(ids[name]) for name in sorted(change.set_columns))
        )
        rows.append({**change.row, "_op": change.op, SET: set_ids})
    append(orders, CHANGE, rows, **summary)


def read(orders: KeyedLake) -> list[tuple[Any, ...]]:
    location = orders.load().metadata_location
    assert location is not None
    rows = StaticTable.from_metadata(location).scan().to_arrow().to_pylist()
    return sorted((tuple(row[name] for name in NAMES) for row in rows), key=repr)


def merge(orders: KeyedLake, api: ServerApi, mode: str) -> None:
    lease = lease_merge(orders, api, mode)
    result = run(api, lease)
    assert result.outcome is Outcome.COMMITTED
    api.report(lease, result, [])


def make_row(random: Random) -> dict[str, Any]:
    note, email = (random.choice([None, "a", "b"]) for _ in range(2))
    return {
        "id": random.randrange(8),
        "note": note,
        "email": email,
        "visits": random.choice([None, random.randrange(9)]),
    }


@pytest.mark.parametrize("seed", range(2))
def test_three_writers_deletes_and_merges(orders: KeyedLake, api: ServerApi, seed: int) -> None:
    """Rows also come by an INSERT and by statements under the table's own name, and set all columns."""
    random = Random(seed)
    model = PartialModel(("id",), NAMES)

    def change() -> None:
        sent = [make_random_change(random, make_row(random), ("id",), WRITERS) for _ in range(random.randint(1, 4))]
        send(orders, *sent)
        for each in sent:
            model.apply(each)

    def insert() -> None:
        key = random.randrange(8)
        orders.append((key, "whole"))
        model.apply(PartialChange("U", {"id": key, "note": "whole"}))

    def update() -> None:
        key = random.randrange(8)
        orders.send(plan_statement(orders, deleted=[key], upserted=[(8, "moved")]))
        model.apply(PartialChange("D", {"id": key}))
        model.apply(PartialChange("U", {"id": 8, "note": "moved"}))

    def merge_some() -> None:
        if orders.lake.keyed().pending_rows:
            merge(orders, api, random.choice(["auto", "adopt"]))

    for _ in range(STEPS):
        random.choices([change, insert, update, merge_some], [6, 1, 1, 2])[0]()
        if random.random() < 0.7:
            assert read(orders) == model.list_rows()
    merge(orders, api, "adopt") if orders.lake.keyed().pending_rows else None
    assert read(orders) == model.list_rows()


def test_a_given_null_is_null_and_other_columns_stay(orders: KeyedLake) -> None:
    append(orders, BASE, [{"id": 1, "note": "n", "email": "e", "visits": 1}])
    send(orders, PartialChange("U", {"id": 1, "email": None, "note": "not given"}, frozenset({"email"})))
    assert read(orders) == [(1, "n", None, 1)]
    send(orders, PartialChange("D", {"id": 1}), PartialChange("U", {"id": 1, "visits": 7}, frozenset({"visits"})))
    assert read(orders) == [(1, None, None, 7)]


def test_columns_keep_their_ids(orders: KeyedLake) -> None:
    """A pending change sets the column of its id, whatever the column is called, and no column that came later."""
    append(orders, BASE, [{"id": 1, "note": "n", "email": "e", "visits": 1}])
    send(orders, PartialChange("U", {"id": 1, "email": "new"}, frozenset({"email"})))
    schema = current_schema(orders.lake.metadata(BASE))
    fields = [{**field, "name": "mail" if field["name"] == "email" else field["name"]} for field in schema["fields"]]
    fields.append({"id": 5, "name": "email", "type": "string", "required": False})
    changed = {**schema, "schema-id": 1, "fields": fields}
    current = {"action": "set-current-schema", "schema-id": -1}
    orders.lake.commit(altered(BASE, {"action": "add-schema", "schema": changed}, current))
    location = orders.load().metadata_location
    assert location is not None
    (row,) = StaticTable.from_metadata(location).scan().to_arrow().to_pylist()
    assert row == {"id": 1, "note": "n", "mail": "new", "visits": 1, "email": None}
    assert SET_ID in {field["id"] for field in current_schema(orders.lake.metadata(CHANGE))["fields"]}


def set_partial(value: str) -> TableCommit:
    return altered(BASE, set_property("firn.partial", value))


def test_it_is_switched_on_once_while_nothing_is_pending(lake: Lake) -> None:
    create(lake, {"firn.read.max-wait": "60 s"})
    orders = KeyedLake(lake)
    append(orders, CHANGE, [{"id": 1, "note": "n", "_op": "U"}])
    with pytest.raises(CommitRefused, match="merge first"):
        lake.commit(set_partial("true"))
    with listening(lake.client.app) as url:
        merge(orders, connect(url), "adopt")
    lake.commit(set_partial("false"))
    with pytest.raises(CommitRefused, match="own name"):
        lake.commit(altered(CHANGE, set_property("firn.partial", "true")))
    with pytest.raises(CommitRefused, match="statement of its own"):
        lake.commit(altered(BASE, set_property("firn.partial", "true"), {"action": "add-spec", "spec": {"fields": []}}))
    with pytest.raises(Invalid, match="expected true or false"):
        lake.commit(set_partial("yes"))
    lake.commit(set_partial("true"))
    assert lake.metadata(CHANGE)["properties"]["firn.partial"] == "true"
    send(orders, PartialChange("U", {"id": 1, "email": "e"}, frozenset({"email"})))
    assert read(orders) == [(1, "n", "e", None)]
    lake.commit(set_partial("true"))
    for update in (
        set_property("firn.partial", "false"),
        {"action": "remove-properties", "removals": ["firn.partial"]},
    ):
        with pytest.raises(CommitRefused, match="cannot be switched off"):
            lake.commit(altered(BASE, update))
    lake.services.images.stop()


BY_NOTE: Json = {"spec-id": 0, "fields": [{"source-id": 2, "field-id": 1000, "name": "n", "transform": "identity"}]}


def test_what_does_not_fit_is_refused(lake: Lake) -> None:
    with pytest.raises(CommitRefused, match="exclude each other"):
        create(lake, {"firn.partial": "true", "firn.sequence-field": "visits"})
    with pytest.raises(CommitRefused, match="columns of its primary key, and note is none"):
        create(lake, {"firn.partial": "true"}, spec=BY_NOTE)
    with pytest.raises(Invalid, match="expected true or false"):
        create(lake, {"firn.partial": "1"})
    reserved = {"id": 5, "name": SET, "type": "string", "required": False}
    with pytest.raises(CommitRefused, match="'_set' is taken"):
        create(lake, {"firn.partial": "true"}, schema={**WIDE, "fields": [*WIDE["fields"], reserved]})
    create(lake, {"firn.partial": "true"})
    with pytest.raises(CommitRefused, match="columns of its primary key, and note is none"):
        lake.commit(altered(BASE, {"action": "add-spec", "spec": BY_NOTE}))
    schema = current_schema(lake.metadata(BASE))
    added = {**schema, "schema-id": 1, "fields": [*schema["fields"], reserved]}
    with pytest.raises(CommitRefused, match="'_set' is taken"):
        lake.commit(altered(BASE, {"action": "add-schema", "schema": added}))
    change = current_schema(lake.metadata(CHANGE))
    without = {**change, "schema-id": 1, "fields": [field for field in change["fields"] if field["id"] != SET_ID]}
    with pytest.raises(CommitRefused, match="'_set' of a change store cannot be altered"):
        lake.commit(altered(CHANGE, {"action": "add-schema", "schema": without}))


RULES = {"visits": "sum", "note": "first", "email": "last-not-null"}
RULED = name_properties(RULES, {})
GROUPS = {"note": "visits", "email": "visits", "visits": "visits"}
PART = {"note": "visits", "visits": "visits"}
BATCHES = count()


def name_batch() -> dict[str, str]:
    return {"firn.writer-id": "w", "firn.batch-id": str(next(BATCHES))}


@pytest.mark.parametrize(
    ("seed", "rules", "groups"), [(0, RULES, {}), (1, RULES, {}), (2, {}, GROUPS), (3, {"email": "first"}, PART)]
)
def test_columns_with_rules_and_groups(lake: Lake, seed: int, rules: dict[str, str], groups: dict[str, str]) -> None:
    create(lake, {"firn.partial": "true", "firn.read.max-wait": "60 s", **name_properties(rules, groups)})
    orders, random = KeyedLake(lake), Random(seed)
    model, states = PartialModel(("id",), NAMES, rules=rules, groups=groups), {0: list[tuple[Any, ...]]()}
    with listening(lake.client.app) as url:
        api = connect(url)
        for _ in range(STEPS):
            if random.random() < 0.25 and lake.keyed().pending_rows:
                merge(orders, api, random.choice(["auto", "adopt"]))
            else:
                sent = [make_random_change(random, make_row(random), ("id",), WRITERS) for _ in range(3)]
                send(orders, *sent, **name_batch())
                for each in sent:
                    model.apply(each)
            states[lake.keyed().version] = model.list_rows()
            if random.random() < 0.7:
                assert read(orders) == model.list_rows()
        assert read(orders) == model.list_rows()
        with firn.connect(url) as client:
            for _ in range(3):
                since, until = sorted(random.sample(sorted(states), 2))
                feed = client.tables["db.orders"].changes(since=since, until=until, images="both").to_pylist()
                assert lead_on(states[since], feed) == states[until]
    lake.services.images.stop()


def lead_on(rows: list[tuple[Any, ...]], feed: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The rows after the changes of a feed, whose rows before it must be these."""
    by_key = {row[0]: row for row in rows}
    for change in feed:
        before, after = (
            image and tuple(image[name] for name in NAMES) for image in (change["_before"], change["_after"])
        )
        assert by_key.pop(change["id"], None) == before
        if after is not None:
            by_key[change["id"]] = after
    return sorted(by_key.values(), key=repr)


def test_commits_that_could_count_twice_are_refused(lake: Lake) -> None:
    create(lake, {"firn.partial": "true", "firn.read.max-wait": "60 s", "firn.column.visits.rule": "sum"})
    orders = KeyedLake(lake)
    row = PartialChange("U", {"id": 1, "visits": 1})
    for summary in ({}, {"firn.writer-id": "w"}, {"firn.batch-id": "1"}):
        with pytest.raises(CommitRefused, match="the commit has to name its writer, and a batch or position"):
            send(orders, row, **summary)
    with pytest.raises((CommitRefused, Invalid), match="the commit has to name its writer"):
        orders.append((1, "by an engine"))
    send(orders, row, **name_batch())
    assert read(orders) == [(1, None, None, 1)]
    with pytest.raises((CommitRefused, Invalid), match="the commit has to name its writer"):
        orders.send(plan_statement(orders, deleted=[1]))
    for update in (
        set_property("firn.column.visits.rule", "max"),
        set_property("firn.column.note.rule", "first"),
        {"action": "remove-properties", "removals": ["firn.column.visits.rule"]},
    ):
        with pytest.raises(CommitRefused, match="fixed when it is created"):
            lake.commit(altered(BASE, update))
    schema = current_schema(lake.metadata(BASE))
    fields = [{**field, "name": "n"} if field["name"] == "visits" else field for field in schema["fields"]]
    with pytest.raises(CommitRefused, match="'visits' has a rule"):
        lake.commit(altered(BASE, {"action": "add-schema", "schema": {**schema, "schema-id": 1, "fields": fields}}))
    lake.services.images.stop()
    lake.services.image_writes.stop()


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"visits": "average"}, "expected one of sum, max, min, first, last-not-null"),
        ({"note": "sum"}, "'note' cannot have the rule sum: its type is string"),
        ({"note": "max"}, "'note' cannot have the rule max"),
        ({"id": "max"}, "part of the primary key"),
        ({"missing": "max"}, "no column 'missing'"),
    ],
)
def test_rules_that_do_not_fit_are_refused(lake: Lake, rules: dict[str, str], reason: str) -> None:
    properties = {f"firn.column.{column}.rule": rule for column, rule in rules.items()}
    with pytest.raises(Invalid, match=reason):
        create(lake, {"firn.partial": "true", **properties})


def test_rules_need_partial_columns(lake: Lake) -> None:
    with pytest.raises(Invalid, match="needs firn"):
        create(lake, {"firn.column.visits.rule": "sum"})


def test_groups_fit_the_table_and_never_change(lake: Lake) -> None:
    with pytest.raises(Invalid, match="'Visits'; it has id, note, email, visits"):
        create(lake, {"firn.partial": "true", **name_properties({}, {"note": "Visits"})})
    create(lake, {"firn.partial": "true", **name_properties({}, PART)})
    for update in (
        set_property("firn.group.of visits.columns", "email"),
        set_property("firn.group.new.columns", "email"),
        {"action": "remove-properties", "removals": ["firn.group.of visits.sequence-field"]},
    ):
        with pytest.raises(CommitRefused, match="fixed when it is created"):
            lake.commit(altered(BASE, update))
    schema = current_schema(lake.metadata(BASE))
    renamed = [{**field, "name": "n"} if field["name"] == "note" else field for field in schema["fields"]]
    for fields in (renamed, [field for field in schema["fields"] if field["name"] != "visits"]):
        with pytest.raises(CommitRefused, match="belongs to a sequence group"):
            lake.commit(altered(BASE, {"action": "add-schema", "schema": {**schema, "schema-id": 1, "fields": fields}}))
