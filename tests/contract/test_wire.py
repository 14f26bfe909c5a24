"""What the client reads of answers is in the API document, in types that fit; the rest is in firn.protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from firn import wire as client
from firn.protocol.leases import Registered

DOCUMENT = json.loads((Path(__file__).parent / "openapi.json").read_text(encoding="utf-8"))
READ: dict[type[BaseModel], str] = {
    client.MetastoreDown: "MetastoreDownOut",
    client.Catalog: "CatalogOut",
    client.TableRow: "TableRow",
    client.Table: "TableOut",
    client.Keys: "KeysOut",
    client.RepeatedKey: "RepeatedKeyOut",
    client.Column: "server__api__table_views__ColumnOut",
    client.Store: "StoreOut",
    client.Next: "NextOut",
    client.Predicted: "PredictedOut",
    client.Blocker: "TableBlockerOut",
    client.Health: "TableHealthOut",
    client.Loss: "LossOut",
    client.Job: "JobOut",
    client.Attempt: "AttemptOut",
    client.DryRun: "DryRunOut",
    client.AffectedItems: "AffectedItemsOut",
    client.Operation: "OperationOut",
    client.Batch: "BatchOut",
    client.StartedBatch: "StartedOut",
    client.ImportEntry: "EntryOut",
    client.LogLine: "LogLine",
    client.OrphanBatch: "OrphanBatchOut",
    client.OrphanFile: "OrphanFileOut",
    client.Pinned: "PinnedOut",
    client.Pin: "PinOut",
    client.Drop: "DropOut",
    client.Dropped: "DroppedOut",
    client.Restored: "RestoredOut",
    client.Undropped: "UndropOut",
    client.NamespaceDropped: "NamespaceDropOut",
    Registered: "RegisteredOut",
}
"""Every model that an answer is read into, and the schema of that answer."""

Kinds = set[tuple[str, ...]]


def kinds(schema: dict[str, Any], definitions: dict[str, Any]) -> Kinds:
    """All that a value of this schema may be, such as {("string", "uuid"), ("null",)}; enumerations value by value."""
    if "$ref" in schema:
        return kinds(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        return {kind for one in schema["anyOf"] for kind in kinds(one, definitions)}
    if "enum" in schema:
        return {("enum", value) for value in schema["enum"]}
    if schema.get("type") == "array":
        return {("array", *kind) for kind in kinds(schema["items"], definitions)}
    if "format" in schema:
        return {(schema["type"], schema["format"])}
    return {(schema["type"],)}


def misfits(read: Kinds, served: Kinds) -> Kinds:
    """What may be served and could not be read."""
    return {kind for kind in served if not any(_takes(other, kind) for other in read)}


def _takes(reads: tuple[str, ...], kind: tuple[str, ...]) -> bool:
    if reads[0] == kind[0] == "array":
        return _takes(reads[1:], kind[1:])
    # A string takes identifiers, times and the values of enumerations; a number takes whole ones.
    return (
        reads == kind
        or (reads == ("string",) and kind[0] in {"string", "enum"})
        or (reads == ("number",) and kind == ("integer",))
    )


def problems(reader: dict[str, Any], definitions: dict[str, Any], served: dict[str, Any]) -> Iterator[str]:
    """Why an answer of the served schema might not be read."""
    for name, field in reader["properties"].items():
        if name not in served["properties"]:
            yield f"{name} is not served"
            continue
        if name in reader.get("required", []) and name not in served.get("required", []):
            yield f"{name} may be missing"
        here = DOCUMENT["components"]["schemas"]
        if wrong := misfits(kinds(field, definitions), kinds(served["properties"][name], here)):
            yield f"{name} may be {sorted(wrong)}"


@pytest.mark.parametrize("model", READ, ids=lambda model: f"{model.__module__}.{model.__name__}")
def test_every_field_that_is_read_is_served_and_fits(model: type[BaseModel]) -> None:
    schema = model.model_json_schema()
    served = DOCUMENT["components"]["schemas"][READ[model]]
    assert list(problems(schema, schema.get("$defs", {}), served)) == []


def test_every_model_of_the_client_is_compared_here() -> None:
    of_client = {*client.Wire.__subclasses__(), *client.TableRow.__subclasses__()}
    assert of_client | {Registered} == set(READ)


@pytest.mark.parametrize(
    ("read", "served"),
    [
        ({"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"type": "integer"}, {"type": "number"}),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}),
        ({"enum": ["a"]}, {"type": "string"}),
        ({"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "string", "format": "uuid"}, {"type": "string"}),
    ],
)
def test_the_comparison_finds_what_does_not_fit(read: dict[str, Any], served: dict[str, Any]) -> None:
    assert misfits(kinds(read, {}), kinds(served, {}))
