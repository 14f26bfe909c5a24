"""An OpenAPI document of the Iceberg routes: paths and parameters are the application's own, bodies are described here.

The routes read their bodies as JSON objects and check them by themselves, so the document that FastAPI makes knows
none. What is described is what a client sends, with values of the lake that it goes to among those that are tried: a
commit of random numbers alone would never get past its requirements.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from fastapi import FastAPI

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "integer"}
TEXTS: Schema = {"type": "array", "items": TEXT}
NUMBERS: Schema = {"type": "array", "items": NUMBER}
MAP: Schema = {"type": "object", "additionalProperties": TEXT}
PART_OF_A_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 12}


def of(required: Mapping[str, Schema], **optional: Schema) -> Schema:
    """An object; underscores in the names of optional fields stand for hyphens."""
    properties = {**required, **{name.replace("_", "-"): value for name, value in optional.items()}}
    return {"type": "object", "properties": properties, "required": [*required]}


def several(items: Schema, most: int = 4) -> Schema:
    return {"type": "array", "items": items, "maxItems": most}


def either(*schemas: Schema) -> Schema:
    return {"anyOf": [*schemas]}


def known(*values: Any) -> Schema:
    """Any of these, or something else of their type."""
    other = NUMBER if isinstance(values[0], int) else PART_OF_A_NAME
    return either({"enum": [*values]}, other)


ID = known(0, 1, 2, -1)
TYPE: Schema = either(
    {"enum": ["long", "int", "string", "double", "decimal(9,2)", "fixed[4]", "timestamptz", "timestamp_ns", "uuid"]},
    {"enum": ["variant", "geometry(srid:4326)", "unknown", "binary", "date"]},
    of({"type": {"enum": ["list"]}, "element-id": ID, "element": {"enum": ["int"]}, "element-required": FLAG}),
    of(
        {"type": {"enum": ["map"]}, "key-id": ID, "key": {"enum": ["string"]}, "value-id": ID},
        value={"enum": ["long"]},
        value_required=FLAG,
    ),
    {"$ref": "#/components/schemas/Struct"},
)
FIELD = of(
    {"id": known(1, 2, 3, 4), "name": known("id", "note", "more"), "type": TYPE, "required": FLAG},
    doc=TEXT,
    initial_default=either(NUMBER, TEXT),
    write_default=either(NUMBER, TEXT),
)
STRUCT = of({"type": {"enum": ["struct"]}, "fields": several(FIELD)}, schema_id=ID, identifier_field_ids=NUMBERS)
TRANSFORM = known("identity", "bucket[4]", "truncate[2]", "day", "year", "void")
SPEC = of(
    {"fields": several(of({"source-id": ID, "transform": TRANSFORM, "name": TEXT}, field_id=known(1000)), 2)},
    spec_id=ID,
)
SORTED = of(
    {
        "source-id": ID,
        "transform": TRANSFORM,
        "direction": {"enum": ["asc", "desc"]},
        "null-order": {"enum": ["nulls-first", "nulls-last"]},
    }
)
ORDER = of({"order-id": ID, "fields": several(SORTED, 2)})
SUMMARY = of({"operation": known("append", "overwrite", "replace", "delete")}, added_records=TEXT, total_records=TEXT)
REQUIREMENTS: Mapping[str, Mapping[str, Schema]] = {
    "assert-create": {},
    "assert-table-uuid": {"uuid": TEXT},
    "assert-view-uuid": {"uuid": TEXT},
    "assert-ref-snapshot-id": {"ref": known("main", "t"), "snapshot-id": known(1001)},
    "assert-last-assigned-field-id": {"last-assigned-field-id": known(2)},
    "assert-current-schema-id": {"current-schema-id": ID},
    "assert-last-assigned-partition-id": {"last-assigned-partition-id": known(999)},
    "assert-default-spec-id": {"default-spec-id": ID},
    "assert-default-sort-order-id": {"default-sort-order-id": ID},
}
QUERY = of({"type": {"enum": ["sql"]}, "sql": TEXT, "dialect": known("spark", "trino")})
VERSION = of(
    {
        "version-id": ID,
        "timestamp-ms": NUMBER,
        "schema-id": ID,
        "summary": MAP,
        "representations": several(QUERY, 2),
        "default-namespace": TEXTS,
    },
    default_catalog=TEXT,
)
PROPERTIES: Mapping[str, Mapping[str, Schema]] = {
    "set-properties": {"updates": MAP},
    "remove-properties": {"removals": TEXTS},
    "set-location": {"location": TEXT},
    "assign-uuid": {"uuid": TEXT},
    "upgrade-format-version": {"format-version": known(1, 2, 3)},
    "add-schema": {"schema": STRUCT},
}


def document(app: FastAPI, lake: Mapping[str, str]) -> Schema:
    """The application's document with its bodies; `lake` has the names and places that requests are to meet."""
    openapi: Schema = deepcopy(app.openapi())
    openapi["components"]["schemas"] |= {"Struct": STRUCT, "Filter": filters()}
    for key, schema in bodies(lake).items():
        method, path = key.split()
        media = "application/x-www-form-urlencoded" if path == "/oauth/tokens" else "application/json"
        openapi["paths"][path][method.lower()]["requestBody"] = {
            "required": True,
            "content": {media: {"schema": schema}},
        }
    return openapi


def bodies(lake: Mapping[str, str]) -> Mapping[str, Schema]:
    """What each route with a body is sent."""
    return {**table_bodies(lake), **view_bodies(lake), **other_bodies(lake)}


NAMESPACE = "/{catalog}/namespaces/{namespace}"


def table_bodies(lake: Mapping[str, str]) -> Mapping[str, Schema]:
    """What the routes of tables are sent."""
    places = known(lake["location"], lake["metadata"])
    called = of({"namespace": known_path(lake["namespace"]), "name": known(lake["table"], lake["view"], "new")})
    name, table = known(lake["table"], lake["view"], "new"), f"{NAMESPACE}/tables/{{table}}"
    commit = of({"requirements": several(requirement(lake), 2), "updates": several(table_update(lake, places), 3)})
    return {
        f"POST {NAMESPACE}/tables": of(
            {"name": name, "schema": STRUCT},
            location=places,
            partition_spec=SPEC,
            write_order=ORDER,
            stage_create=FLAG,
            properties=known_map({"firn.primary-key": "id", "format-version": "3"}),
        ),
        f"POST {table}": commit,
        "POST /{catalog}/transactions/commit": of(
            {"table-changes": several(of({"identifier": called, **commit["properties"]}), 3)}
        ),
        f"POST {table}/metrics": metrics(),
        f"POST {table}/sign": of(
            {"region": TEXT, "method": known("GET", "PUT"), "uri": places, "headers": {"type": "object"}},
            body=TEXT,
            provider=known("s3"),
        ),
        f"POST {table}/plan": scan(),
        f"POST {table}/tasks": of({"plan-task": TEXT}),
    }


def view_bodies(lake: Mapping[str, str]) -> Mapping[str, Schema]:
    """What the routes of views are sent."""
    name, places = known(lake["table"], lake["view"], "new"), known(lake["location"], lake["metadata"])
    return {
        f"POST {NAMESPACE}/views": of(
            {"name": name, "schema": STRUCT, "view-version": VERSION, "properties": MAP}, location=places
        ),
        f"POST {NAMESPACE}/views/{{view}}": of(
            {"updates": several(view_update(), 3)}, requirements=several(requirement(lake), 2)
        ),
    }


def other_bodies(lake: Mapping[str, str]) -> Mapping[str, Schema]:
    """What the routes of namespaces, of tokens, and of tables and views alike are sent."""
    name, places = known(lake["table"], lake["view"], "new"), known(lake["location"], lake["metadata"])
    called = of({"namespace": known_path(lake["namespace"]), "name": name})
    registered = of({"name": name, "metadata-location": places}, overwrite=FLAG)
    renamed = of({"source": called, "destination": called})
    return {
        "POST /oauth/tokens": of({"grant_type": known("client_credentials")}, scope=TEXT, subject_token=TEXT),
        "POST /{catalog}/namespaces": of({"namespace": known_path(lake["namespace"])}, properties=MAP),
        f"POST {NAMESPACE}/properties": of({}, updates=MAP, removals=TEXTS),
        f"POST {NAMESPACE}/register": registered,
        f"POST {NAMESPACE}/register-view": registered,
        "POST /{catalog}/tables/rename": renamed,
        "POST /{catalog}/views/rename": renamed,
    }


def known_path(namespace: str) -> Schema:
    return either({"enum": [[namespace]]}, {**TEXTS, "items": PART_OF_A_NAME, "maxItems": 3})


def known_map(properties: Mapping[str, str]) -> Schema:
    return either(MAP, *({"enum": [{key: value}]} for key, value in properties.items()))


def requirement(lake: Mapping[str, str]) -> Schema:
    fields = {**REQUIREMENTS, "assert-table-uuid": {"uuid": known(lake["uuid"])}}
    return either(*(of({"type": {"enum": [kind]}, **named}) for kind, named in fields.items()))


def table_update(lake: Mapping[str, str], places: Schema) -> Schema:
    snapshot = of(
        {"snapshot-id": known(1001, 1002), "timestamp-ms": known(2_000_000_000_000), "manifest-list": places},
        parent_snapshot_id=known(1001),
        sequence_number=known(1, 2),
        schema_id=ID,
        first_row_id=known(0, 10),
        added_rows=known(10),
        summary=SUMMARY,
    )
    ref = {"ref-name": known("main", "t"), "type": known("branch", "tag"), "snapshot-id": known(1001, 1002)}
    file = {"snapshot-id": known(1001), "statistics-path": places, "file-size-in-bytes": NUMBER}
    blob = of({"type": TEXT, "snapshot-id": NUMBER, "sequence-number": NUMBER, "fields": NUMBERS}, properties=MAP)
    footer = {"file-footer-size-in-bytes": NUMBER, "blob-metadata": several(blob, 1)}
    actions: Mapping[str, Mapping[str, Schema]] = {
        **PROPERTIES,
        "assign-uuid": {"uuid": known(lake["uuid"])},
        "set-location": {"location": places},
        "set-current-schema": {"schema-id": ID},
        "remove-schemas": {"schema-ids": NUMBERS},
        "add-spec": {"spec": SPEC},
        "set-default-spec": {"spec-id": ID},
        "remove-partition-specs": {"spec-ids": NUMBERS},
        "add-sort-order": {"sort-order": ORDER},
        "set-default-sort-order": {"sort-order-id": ID},
        "add-snapshot": {"snapshot": snapshot},
        "remove-snapshots": {"snapshot-ids": several(known(1001))},
        "set-snapshot-ref": {**ref, "max-ref-age-ms": NUMBER, "min-snapshots-to-keep": NUMBER},
        "remove-snapshot-ref": {"ref-name": known("main", "t")},
        "set-statistics": {"statistics": of({**file, **footer})},
        "remove-statistics": {"snapshot-id": known(1001)},
        "set-partition-statistics": {"partition-statistics": of(file)},
        "remove-partition-statistics": {"snapshot-id": known(1001)},
        "add-encryption-key": {"encryption-key": of({"key-id": TEXT, "encrypted-key-metadata": TEXT})},
        "remove-encryption-key": {"key-id": TEXT},
    }
    return one_of(actions)


def view_update() -> Schema:
    return one_of(
        {
            **PROPERTIES,
            "add-view-version": {"view-version": VERSION},
            "set-current-view-version": {"view-version-id": ID},
        }
    )


def one_of(actions: Mapping[str, Mapping[str, Schema]]) -> Schema:
    return either(*(of({"action": {"enum": [action]}, **fields}) for action, fields in actions.items()))


def metrics() -> Schema:
    counter = of({"unit": known("count", "bytes"), "value": NUMBER})
    timer = of({"time-unit": known("nanoseconds"), "count": NUMBER, "total-duration": NUMBER})
    measured: Schema = {"type": "object", "additionalProperties": either(counter, timer)}
    both = {"table-name": TEXT, "snapshot-id": NUMBER, "metrics": measured}
    scanned = of(
        {"report-type": {"enum": ["scan-report"]}, **both, "filter": {"$ref": "#/components/schemas/Filter"}},
        schema_id=ID,
        projected_field_ids=NUMBERS,
        projected_field_names=TEXTS,
    )
    committed = of({"report-type": {"enum": ["commit-report"]}, **both, "sequence-number": NUMBER, "operation": TEXT})
    return either(scanned, committed)


def filters() -> Schema:
    again = {"$ref": "#/components/schemas/Filter"}
    term = known("id", "note")
    value = either(NUMBER, TEXT)
    return either(
        {"enum": [True, False]},
        of({"type": known("is-null", "not-nan"), "term": term}),
        of({"type": known("eq", "lt", "gt-eq", "starts-with"), "term": term, "value": value}),
        of({"type": known("in", "not-in"), "term": term, "values": several(value)}),
        of({"type": known("and", "or"), "left": again, "right": again}),
        of({"type": {"enum": ["not"]}, "child": again}),
    )


def scan() -> Schema:
    return of(
        {},
        snapshot_id=known(1001),
        select=TEXTS,
        filter={"$ref": "#/components/schemas/Filter"},
        min_rows_requested=NUMBER,
        case_sensitive=FLAG,
        use_snapshot_schema=FLAG,
        start_snapshot_id=known(1001),
        end_snapshot_id=known(1001),
        stats_fields=TEXTS,
    )
