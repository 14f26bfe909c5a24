"""The JSON schema of `firn-pipeline.yml`, by which editors complete and check the file."""

from __future__ import annotations

from typing import Any, Final

from firn.protocol.pipeline_code import MOST_TRANSFORMS, CodeScope
from firn.protocol.pipeline_outputs import AuditMode, OnChange, OutputMode
from firn.protocol.pipeline_sets import MOST_TOGETHER
from firn.protocol.pipelines import Refresh
from firn.protocol.validators import Severity


def _write_object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": required}


_NAMES: Final[dict[str, Any]] = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_REFRESH: Final[dict[str, Any]] = {
    "enum": [str(policy) for policy in Refresh],
    "description": "auto and incremental: incrementally where the query allows it. strict: a query that must be "
    "computed in full is an error. full: always in full.",
}
_ON_CHANGE: Final[dict[str, Any]] = {
    "enum": [str(choice) for choice in OnChange],
    "description": "ask: `put` takes a changed query of a built table only with --rebuild. rebuild: always.",
}
_AUDIT: Final[dict[str, Any]] = {
    "enum": [str(choice) for choice in AuditMode],
    "description": "auto: rows whose validators have passed are committed. hold: they wait until somebody publishes "
    "them.",
}
_MODE: Final[dict[str, Any]] = {
    "description": "How runs write the table. upsert: a table with a key. overwrite: a table without one; rows that "
    "differ are replaced. append: rows of new rows of streams are added. {columns: […]}: only these columns of a table "
    "with a key that others fill.",
    "oneOf": [
        {"enum": [str(mode) for mode in OutputMode if mode is not OutputMode.COLUMNS]},
        _write_object({"columns": {**_NAMES, "minItems": 1}}, ["columns"]),
    ],
}
_TRIGGER: Final[dict[str, Any]] = {
    "description": "When runs start: manual, by a schedule (cron), after a commit to an input (on: commit), or as late "
    "as the table stays fresh (fresh_within).",
    "oneOf": [
        {"const": "manual"},
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["cron"],
            "properties": {"cron": {"type": "string", "description": "five fields, in UTC", "examples": ["0 3 * * *"]}},
        },
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["fresh_within"],
            "properties": {"fresh_within": {"type": "string", "examples": ["15 min"]}},
        },
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["on"],
            "properties": {
                "on": {"const": "commit"},
                "all": {"type": "boolean", "description": "wait until every input has a commit"},
            },
        },
    ],
}

_SET: Final[dict[str, Any]] = {
    "type": "array",
    "items": {"type": "string"},
    "minItems": 2,
    "maxItems": MOST_TOGETHER,
    "uniqueItems": True,
}
_COLUMN: Final[dict[str, Any]] = {"type": "string"}
_SCALAR: Final[dict[str, Any]] = {"type": ["string", "number", "boolean"]}
_CHECKS: Final[dict[str, dict[str, Any]]] = {
    "condition": {"type": "string", "description": "Spark SQL over the columns of a row, which must be true"},
    "not_null": {**_NAMES, "description": "columns that have a value in each row"},
    "unique": {**_NAMES, "description": "columns whose values no two rows share"},
    "accepted": _write_object({"column": _COLUMN, "values": {"type": "array", "items": _SCALAR}}, ["column", "values"]),
    "range": {
        **_write_object({"column": _COLUMN, "min": _SCALAR, "max": _SCALAR}, ["column"]),
        "anyOf": [{"required": ["min"]}, {"required": ["max"]}],
    },
    "matches": _write_object({"column": _COLUMN, "pattern": {"type": "string"}}, ["column", "pattern"]),
    "references": _write_object(
        {"column": _COLUMN, "in": {"type": "string"}, "in_column": {"type": "string"}}, ["column", "in"]
    ),
    "row_count": {
        **_write_object({"min": {"type": "integer"}, "max": {"type": "integer"}, "change": {"type": "string"}}, []),
        "anyOf": [{"required": [name]} for name in ("min", "max", "change")],
    },
    "python": {
        "type": "string",
        "description": "a function(spark, audited, changed) of a Python file that gives wrong rows or a list of texts",
        "examples": ["checks:find_wrong"],
    },
    "same_as_full": {
        "type": "string",
        "description": "a part of the rows that an incremental run compares with a full computation",
        "examples": ["5 %"],
    },
    "sql": {"type": "string", "description": "a query over `audited` and `changed` whose first value is `expect`"},
}
_MAX_COMMITS: Final[dict[str, Any]] = {
    "type": "integer",
    "minimum": 1,
    "maximum": 1_000_000,
    "description": "the new commits of its inputs that one run takes at most; the next run continues at once",
}
_VALIDATOR: Final[dict[str, Any]] = {
    "oneOf": [
        _write_object(
            {
                name: check,
                "name": {"type": "string"},
                "severity": {"enum": [str(severity) for severity in Severity]},
                **({"expect": _SCALAR} if name == "sql" else {}),
            },
            [name, "expect"] if name == "sql" else [name],
        )
        for name, check in _CHECKS.items()
    ]
}

_TRANSFORM: Final[dict[str, Any]] = _write_object(
    {
        "python": {
            "type": "string",
            "description": "a function(spark, df, context) of a Python file of the folder",
            "examples": ["transforms.enrich:transform"],
        },
        "scope": {
            "enum": [str(scope) for scope in CodeScope],
            "description": "a promise: a row of the result depends on one row, on the rows of its key, or on all rows",
        },
    },
    ["python", "scope"],
)

FIRN_PIPELINE_SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "firn-pipeline.yml",
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "version": {"const": 1},
        "defaults": {
            "type": "object",
            "description": "for tables that do not say otherwise",
            "additionalProperties": False,
            "properties": {
                "refresh": _REFRESH,
                "trigger": _TRIGGER,
                "on_change": _ON_CHANGE,
                "audit": _AUDIT,
                "max_commits": _MAX_COMMITS,
            },
        },
        "deterministic": {
            **_NAMES,
            "description": "functions of yours that give one value for equal arguments",
        },
        "consistent": {
            "description": "tables that move together: one run computes them, and one transaction commits them. For "
            "several sets a list of lists",
            "oneOf": [_SET, {"type": "array", "items": _SET, "minItems": 1}],
        },
        "vars": {
            "type": "object",
            "description": "values of var('name') in SQL files with Jinja",
            "additionalProperties": {"oneOf": [_SCALAR, {"type": "array", "items": _SCALAR}]},
        },
        "tables": {
            "type": "object",
            "description": "settings of tables, by name",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "key": {**_NAMES, "description": "the primary key: columns of the result"},
                    "refresh": _REFRESH,
                    "mode": _MODE,
                    "streams": {**_NAMES, "description": "inputs of which mode: append reads new rows only"},
                    "skip_changes": {
                        "type": "boolean",
                        "description": "leave out changed and deleted rows of streams, which fail a run otherwise",
                    },
                    "on_change": _ON_CHANGE,
                    "audit": _AUDIT,
                    "max_commits": _MAX_COMMITS,
                    "trigger": _TRIGGER,
                    "validate": {"type": "array", "items": _VALIDATOR},
                    "transforms": {"type": "array", "items": _TRANSFORM, "maxItems": MOST_TRANSFORMS},
                    "reads": {**_NAMES, "description": "the tables that Python reads, if its text does not say so"},
                    "scope": {
                        **_NAMES,
                        "description": "a promise for Python: rows with equal values in these columns depend on rows "
                        "of the inputs with the same values alone",
                    },
                },
            },
        },
        "sources": {
            "type": "object",
            "description": "inputs that no table of the pipeline is",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "columns": {
                        "type": "object",
                        "description": "types of Spark by column, for plans and tests without a server",
                        "additionalProperties": {"type": "string"},
                    }
                },
            },
        },
    },
}
