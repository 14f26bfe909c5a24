"""Documents of requests, and what a null in each place of them means."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from catalog.iceberg.json import Json

TABLES = "/iceberg/v1/lake/namespaces/db/tables"
VIEWS = "/iceberg/v1/lake/namespaces/db/views"
SPEC: Json = {
    "spec-id": 0,
    "fields": [{"source-id": 1, "field-id": 1000, "transform": "bucket[4]", "name": "b"}],
}
ORDER: Json = {
    "order-id": 1,
    "fields": [{"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}],
}
VERSION: Json = {
    "version-id": 1,
    "schema-id": 0,
    "timestamp-ms": 1,
    "summary": {"engine-name": "spark"},
    "default-catalog": "lake",
    "default-namespace": ["db"],
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
}
STATISTICS: Json = {
    "snapshot-id": 1,
    "statistics-path": "file:/x",
    "file-size-in-bytes": 1,
    "file-footer-size-in-bytes": 1,
    "blob-metadata": [{"type": "t", "snapshot-id": 1, "sequence-number": 1, "fields": [1], "properties": {"ndv": "1"}}],
}
MISSING, REFUSED, KINDER = "missing", "refused", "kinder"
"""As if it were not there; refused; refused by Java, as if it were not there here."""
Where = tuple[str | int, ...]


def with_null(body: Json, where: Where) -> Json:
    """The body with one of its places null."""
    changed = deepcopy(body)
    holder: Any = changed
    for key in where[:-1]:
        holder = holder[key]
    assert where[-1] in holder, where  # a field that is not there is no test of it
    holder[where[-1]] = None
    return changed


def wrong(expected: dict[Where, str], answers: dict[Where, tuple[int, str]]) -> dict[Where, tuple[int, str]]:
    """The answers that are not what the table says."""
    return {
        where: answers[where]
        for where, means in expected.items()
        if answers[where][0] // 100 != (4 if means is REFUSED else 2)
    }


def nulls(value: Any, above: str = "") -> list[str]:
    """Every place in a JSON value that holds null."""
    if isinstance(value, dict):
        return [path for key, inner in value.items() for path in nulls(inner, f"{above}.{key}")]
    if isinstance(value, list):
        return [path for at, inner in enumerate(value) for path in nulls(inner, f"{above}.{at}")]
    return [above] if value is None else []
