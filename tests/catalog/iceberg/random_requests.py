"""Commit requests as clients send them, drawn at random for a given state of a table; some cannot be applied."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema, ref_snapshot_id
from tests.catalog.iceberg.build import LOCATION, add, column, move, order, part, remove, schema, snapshot, sort, spec

TYPES = ["int", "long", "string", "date", "timestamp", "double", "decimal(9, 2)", "uuid"]
TRANSFORMS = ["identity", "bucket[4]", "truncate[3]", "day", "hour", "void"]


def request(rng: Random, table: Json) -> list[Json]:
    """One request: the updates of one to three intentions; what clients forget, they forget in a request of its own.

    (The reference library removes a schema from one of its two indexes only, and is wrong about it until it reloads.)
    """
    if rng.random() < 0.1:
        return forget(rng, table)
    return [update for _ in range(rng.randint(1, 3)) for update in rng.choice(INTENTIONS)(rng, table)]


def append(rng: Random, table: Json) -> list[Json]:
    version = table["format-version"]
    sequence = 0 if version == 1 else table["last-sequence-number"] + rng.choice([0, 1, 1, 1, 2])
    first = table.get("next-row-id", 0) + rng.choice([-1, 0, 0, 0])
    rows = {"first_row_id": max(first, 0), "added_rows": rng.randint(0, 5)} if version >= 3 else {}
    head = ref_snapshot_id(table, "main") or -1
    snapshot_json = snapshot(rng.randint(3, 60), parent=head, sequence=sequence, **rows)
    if rng.random() < 0.8:  # the rest is dated by its id, as if by a clock of its own
        snapshot_json["timestamp-ms"] = max(
            [snapshot_json["timestamp-ms"], *(entry["timestamp-ms"] for entry in table["snapshot-log"])]
        )
    return (
        [add(snapshot_json), move(snapshot_json["snapshot-id"], "main")] if rng.random() < 0.8 else [add(snapshot_json)]
    )


def point(rng: Random, table: Json) -> list[Json]:
    name, kind = rng.choice([("main", "branch"), ("b", "branch"), ("v", "tag"), ("w", "tag")])
    known = [
        candidate["snapshot-id"]
        for candidate in table["snapshots"]
        if candidate["snapshot-id"] != ref_snapshot_id(table, "main")
    ]
    keep = {"max_ref_age_ms": 5} if rng.random() < 0.3 and name != "main" else {}
    return [move(rng.choice(known or [999]), name, kind, **keep)]


def unpoint(rng: Random, _: Json) -> list[Json]:
    return [{"action": "remove-snapshot-ref", "ref-name": rng.choice(["main", "b", "v", "ghost"])}]


def expire(rng: Random, table: Json) -> list[Json]:
    held = {ref["snapshot-id"] for ref in table["refs"].values()}
    free = [candidate["snapshot-id"] for candidate in table["snapshots"] if candidate["snapshot-id"] not in held]
    return [remove(*rng.sample(free, rng.randint(0, len(free))), 1000)]


def evolve(rng: Random, table: Json) -> list[Json]:
    fields = list(current_schema(table)["fields"])
    if rng.random() < 0.3 and len(fields) > 1:
        fields.pop(rng.randrange(1, len(fields)))
    else:
        number = table["last-column-id"] + 1
        fields.append(column(number, f"c{number}", rng.choice(TYPES)))
    added = {"action": "add-schema", "schema": schema(*fields), "last-column-id": 0}
    return [added, use_schema(-1)] if rng.random() < 0.7 else [added]


def use_schema(number: int) -> Json:
    return {"action": "set-current-schema", "schema-id": number}


def choose(rng: Random, _: Json) -> list[Json]:
    number = rng.randint(0, 4)
    spec_choice = {"action": "set-default-spec", "spec-id": number}
    order_choice = {"action": "set-default-sort-order", "sort-order-id": number}
    return [rng.choice([use_schema(number), spec_choice, order_choice])]


def partition(rng: Random, table: Json) -> list[Json]:
    fields = []
    for at, source in enumerate(rng.sample(current_schema(table)["fields"], k=rng.randint(0, 1))):
        transform = rng.choice(TRANSFORMS)
        start = 1000 if table["format-version"] == 1 else table["last-partition-id"] + 1
        fields.append(part(source["id"], transform, f"{source['name']}_{transform[:3]}", start + at))
    added = {"action": "add-spec", "spec": spec(*fields, spec_id=rng.randint(0, 9))}
    return [added] if rng.random() < 0.5 else [added, {"action": "set-default-spec", "spec-id": -1}]


def arrange(rng: Random, table: Json) -> list[Json]:
    fields = [
        sort(
            source["id"], rng.choice(TRANSFORMS), rng.choice(["asc", "desc"]), rng.choice(["nulls-first", "nulls-last"])
        )
        for source in rng.sample(current_schema(table)["fields"], k=rng.randint(0, 1))
    ]
    return [{"action": "add-sort-order", "sort-order": order(*fields, order_id=1 if fields else 0)}]


def forget(rng: Random, _: Json) -> list[Json]:
    number = rng.randint(0, 5)
    return [
        rng.choice(
            [
                {"action": "remove-schemas", "schema-ids": [number]},
                {"action": "remove-partition-specs", "spec-ids": [number]},
                {"action": "remove-statistics", "snapshot-id": number},
                {"action": "remove-encryption-key", "key-id": str(number)},
            ]
        )
    ]


def describe(rng: Random, table: Json) -> list[Json]:
    number = rng.randint(0, 5)
    return [
        rng.choice(
            [
                {"action": "set-properties", "updates": {f"p{number}": "x"}},
                {"action": "set-properties", "updates": {"write.metadata.previous-versions-max": str(number)}},
                {"action": "remove-properties", "removals": [f"p{number}"]},
                {"action": "set-location", "location": f"{LOCATION}{number}"},
                {"action": "upgrade-format-version", "format-version": rng.randint(1, 3)},
                {"action": "assign-uuid", "uuid": table["table-uuid"]},
                {
                    "action": "add-encryption-key",
                    "encryption-key": {"key-id": str(number), "encrypted-key-metadata": "c2VjcmV0"},
                },
                {
                    "action": "set-partition-statistics",
                    "partition-statistics": {
                        "snapshot-id": number,
                        "statistics-path": f"{LOCATION}/{rng.randint(0, 9)}",
                        "file-size-in-bytes": number,
                    },
                },
            ]
        )
    ]


INTENTIONS: list[Callable[[Random, Json], list[Json]]] = [
    append,
    append,
    append,
    point,
    unpoint,
    expire,
    evolve,
    choose,
    partition,
    arrange,
    describe,
]
