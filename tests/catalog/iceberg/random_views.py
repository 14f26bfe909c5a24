"""Views and the requests that change them, drawn at random; some cannot be applied."""

from __future__ import annotations

from random import Random

from catalog.iceberg.json import Json
from catalog.iceberg.view import build_view
from tests.catalog.iceberg.build import CREATED_MS, LOCATION, ORDERS, UUID, column, schema


def a_random_view(rng: Random) -> Json:
    return build_view(
        uuid=UUID,
        location=LOCATION,
        schema=ORDERS,
        view_version=version(rng, schema_id=0, dialects=["spark"]),
        properties={"version.history.num-entries": str(rng.randint(1, 4))},
        now_ms=CREATED_MS,
    )


def version(rng: Random, *, schema_id: int, dialects: list[str] | None = None) -> Json:
    dialects = dialects or ["spark", *rng.choice([[], [], ["trino"], ["Spark"]])]
    text = f"select {rng.randint(1, 4)}"
    return {
        "version-id": rng.randint(1, 6),
        "timestamp-ms": CREATED_MS + rng.randint(0, 9000),
        "schema-id": schema_id,
        "summary": {"engine-name": "spark"},
        "representations": [{"type": "sql", "sql": text, "dialect": dialect} for dialect in dialects],
        "default-namespace": ["db"],
    }


def view_request(rng: Random, view: Json) -> list[Json]:
    """One request: the updates of one to three intentions."""
    return [update for _ in range(rng.randint(1, 3)) for update in _intention(rng, view)]


def _intention(rng: Random, view: Json) -> list[Json]:
    use_last: Json = {"action": "set-current-view-version", "view-version-id": -1}
    kind = rng.randrange(5)
    if kind == 0:
        fields = [*ORDERS["fields"], column(4, f"more_{rng.randrange(10**9)}", "int")]
        added = version(rng, schema_id=-1)
        return [
            {"action": "add-schema", "schema": schema(*fields)},
            {"action": "add-view-version", "view-version": added},
            use_last,
        ]
    if kind in {1, 2}:
        known = [view_schema["schema-id"] for view_schema in view["schemas"]]
        added = version(rng, schema_id=rng.choice(known))
        adding: Json = {"action": "add-view-version", "view-version": added}
        return [adding, use_last][: rng.randint(1, 2)]
    if kind == 3:
        return [{"action": "set-current-view-version", "view-version-id": rng.randint(1, 8)}]
    name = rng.choice(["a", "replace.drop-dialect.allowed"])
    value = rng.choice(["true", "false"])
    changes: list[Json] = [
        {"action": "set-properties", "updates": {name: value}},
        {"action": "remove-properties", "removals": [name]},
        {"action": "set-location", "location": f"{LOCATION}{rng.randint(0, 2)}"},
    ]
    return [rng.choice(changes)]
