"""The JSON schema of `firn-pipeline.yml`, by which editors complete and check the file."""

from __future__ import annotations

from typing import Any, Final

from firn.protocol.pipelines import Refresh

_NAMES: Final[dict[str, Any]] = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_REFRESH: Final[dict[str, Any]] = {
    "enum": [str(policy) for policy in Refresh],
    "description": "auto and incremental: incrementally where the query allows it. strict: a query that must be "
    "computed in full is an error. full: always in full.",
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
            "properties": {"refresh": _REFRESH, "trigger": _TRIGGER},
        },
        "deterministic": {
            **_NAMES,
            "description": "functions of yours that give one value for equal arguments",
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
                    "trigger": _TRIGGER,
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
