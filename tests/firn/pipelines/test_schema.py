"""The JSON schema of `firn-pipeline.yml` accepts what Firn reads, and refuses what Firn refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from firn.errors import Invalid
from firn.pipelines.example import FILES
from firn.pipelines.settings import read_firn_settings
from firn.protocol.pipeline_schema import FIRN_PIPELINE_SCHEMA

GOOD = (
    FILES["firn-pipeline.yml"],
    "version: 1",
    "defaults: {refresh: strict, trigger: manual}",
    "deterministic: clean",
    "deterministic: [clean, tidy]",
    "consistent: [a, b]",
    "tables: {a: {audit: hold}}",
    "defaults: {audit: hold}",
    "defaults: {max_commits: 200}",
    "tables: {a: {max_commits: 1}, b: {max_commits: 1000000}}",
    "consistent: [[a, b], [c, d]]",
    "tables: {a: {key: id, refresh: full}, b: {key: [x, y], trigger: {cron: '0 * * * *'}}}",
    "tables: {a: {trigger: {on: commit, all: true}}, b: {trigger: {fresh_within: 15 min}}}",
    "sources: {raw.trip: {columns: {driver: bigint}}}",
    "tables: {a: {validate: [{not_null: [x]}, {condition: x > 1, severity: drop, name: b}, {unique: x}]}}",
    "tables: {a: {validate: [{accepted: {column: x, values: [1, a]}}, {range: {column: x, max: 3}}]}}",
    "tables: {a: {validate: [{matches: {column: x, pattern: a}}, {references: {column: x, in: t, in_column: y}}]}}",
    "tables: {a: {validate: [{row_count: {change: '-1 % .. +1 %'}}, {name: n, row_count: {min: 1, max: 3}}]}}",
    "tables: {a: {validate: [{sql: select 1 from audited, expect: 1}]}}",
    "tables: {a: {mode: overwrite, on_change: rebuild}, b: {mode: {columns: [x, y]}}, c: {mode: upsert}}",
    "tables: {a: {mode: append, streams: raw.trip, skip_changes: true}, b: {mode: append, streams: [raw.trip]}}",
    "defaults: {on_change: ask}",
    "vars: {first: '2026-01-01', n: 3, share: 0.5, is_small: true, days: [mon, 2]}",
)
BAD = (
    "version: 2",
    "table: {}",
    "defaults: {refresh: sometimes}",
    "defaults: {key: id}",
    "defaults: {max_commits: 0}",
    "tables: {a: {max_commits: 1000001}}",
    "tables: {a: {max_commits: many}}",
    "tables: {a: {max_commits: 1.5}}",
    "tables: {a: {max_commits: [1]}}",
    "tables: [a]",
    "tables: {a: {keys: id}}",
    "tables: {a: {trigger: often}}",
    "tables: {a: {trigger: {on: insert}}}",
    "tables: {a: {trigger: {cron: x, on: commit}}}",
    "tables: {a: {trigger: {cron: x, all: true}}}",
    "tables: {a: {trigger: {}}}",
    "sources: {raw.trip: {column: {driver: bigint}}}",
    "sources: {raw.trip: {columns: [driver]}}",
    "tables: {a: {validate: [{}]}}",
    "tables: {a: {validate: {not_null: x}}}",
    "tables: {a: {validate: [{not_null: x, unique: x}]}}",
    "tables: {a: {validate: [{not_null: x, severity: loud}]}}",
    "tables: {a: {validate: [{range: {column: x}}]}}",
    "tables: {a: {validate: [{accepted: {values: [1]}}]}}",
    "tables: {a: {validate: [{row_count: {}}]}}",
    "tables: {a: {validate: [{sql: select 1 from audited}]}}",
    "tables: {a: {validate: [{not_null: x, expect: 1}]}}",
    "tables: {a: {mode: merge}}",
    "tables: {a: {mode: columns}}",
    "tables: {a: {mode: {columns: []}}}",
    "tables: {a: {mode: {columns: [x], more: y}}}",
    "tables: {a: {mode: append, streams: {raw.trip: x}}}",
    "tables: {a: {skip_changes: often}}",
    "tables: {a: {on_change: never}}",
    "vars: [first]",
    "vars: {first: {day: 1}}",
    "vars: {first: null}",
)


def load(text: str) -> Any:
    """The values as editors read them, by YAML 1.2: `on` is a text there."""
    return json.loads(json.dumps(yaml.safe_load(text)).replace('"true":', '"on":'))


@pytest.mark.parametrize("text", [*GOOD, *BAD])
def test_schema_and_reader_agree(text: str, tmp_path: Path) -> None:
    (tmp_path / "firn-pipeline.yml").write_text(text)
    try:
        read_firn_settings(tmp_path / "firn-pipeline.yml")
    except Invalid:
        is_read = False
    else:
        is_read = True
    assert jsonschema_rs.is_valid(FIRN_PIPELINE_SCHEMA, load(text)) is is_read is (text in GOOD)
