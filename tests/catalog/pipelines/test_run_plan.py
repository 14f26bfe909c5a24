"""What the next run of a table does: the optimizer's rules, by what the server knows."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.pipelines.run_plan import RunFacts, RunPlan, plan_run
from firn.protocol.pipeline_plan import NextMode
from firn.protocol.pipelines import TableDefinition

MIB = 2**20
DEFINED: dict[str, Any] = {
    "name": "mart.daily",
    "query": "SELECT 1",
    "path": "transformations/daily.sql",
    "line": 3,
    "inputs": ["raw.trip", "dim.driver"],
    "key": ["driver"],
    "fingerprint": "a" * 64,
    "incremental": True,
    "scope": ["driver"],
    "terms": [
        {"inputs": ["raw.trip"], "text": "driver is read from its changed rows"},
        {"inputs": ["dim.driver"], "joined": ["raw.trip"], "text": "joined with raw.trip"},
    ],
    "prunes": True,
}
NOT_INCREMENTAL = {"incremental": False, "reasons": [{"text": "LIMIT", "line": 7, "remedy": "Use QUALIFY"}]}


def plan(definition: dict[str, Any] | None = None, **facts: Any) -> RunPlan:
    known: dict[str, Any] = {
        "full_reason": None,
        "is_fallback": False,
        "changed": ["raw.trip"],
        "has_chunks": False,
        "is_empty": False,
        "measured": {"raw.trip": (MIB, 100 * MIB), "dim.driver": (0, MIB)},
        "target_bytes": 10 * MIB,
    }
    return plan_run(TableDefinition.model_validate(DEFINED | (definition or {})), RunFacts(**known | facts))


def test_no_change_means_no_work_but_chunks_do() -> None:
    assert plan(changed=[]) == RunPlan(NextMode.NOTHING, "no input has changed")
    assert plan({"refresh": "full"}, changed=[]).mode is NextMode.NOTHING
    assert plan({"refresh": "strict"}, changed=[], has_chunks=True).mode is NextMode.INCREMENTAL


def test_auto_weighs_what_either_way_reads() -> None:
    few = plan()
    assert (few.mode, few.incremental_bytes, few.full_bytes) == (NextMode.INCREMENTAL, 2 * MIB + MIB // 100, 111 * MIB)
    joined = plan(changed=["dim.driver"])  # all trips are read at both states
    assert joined.mode is NextMode.FULL
    assert joined.reason is not None
    assert "predicted to read 200 MiB incrementally, 111 MiB in full" in joined.reason
    assert plan({"refresh": "incremental"}, changed=["dim.driver"]) == RunPlan(NextMode.INCREMENTAL)
    small = plan(measured={"raw.trip": (1, MIB), "dim.driver": (0, 0)}, target_bytes=0)
    assert (small.mode, small.reason) == (NextMode.FULL, "1 MiB of inputs and target are cheaper to compute in full")


def test_a_definition_of_an_older_client_tells_no_joins() -> None:
    assert plan({"terms": []}, changed=["dim.driver"]).incremental_bytes is None


@pytest.mark.parametrize(
    ("definition", "facts", "mode", "reason"),
    [
        ({"refresh": "full"}, {}, "full", "refresh: full"),
        ({}, {"full_reason": "raw.trip was rolled back"}, "full", "raw.trip was rolled back"),
        (NOT_INCREMENTAL, {}, "full", "LIMIT (transformations/daily.sql, line 7). Use QUALIFY"),
        ({**NOT_INCREMENTAL, "refresh": "strict"}, {}, "fails", "refresh is strict, and the run would be full: LIMIT"),
        ({"refresh": "strict"}, {"full_reason": "expired", "is_fallback": True}, "fails", "would be full: expired"),
        ({"refresh": "strict"}, {"full_reason": "the first run"}, "full", "the first run"),
        (
            {"mode": "columns", "columns": ["city"], "key": ["id"]},
            {},
            "full",
            "its scope driver is not part of the key",
        ),
        ({"mode": "append", "key": []}, {"full_reason": "expired", "is_empty": True}, "full", "expired"),
        ({"mode": "append", "key": []}, {"full_reason": "expired"}, "fails", "cannot tell which rows of its streams"),
    ],
)
def test_the_reason_of_a_full_or_refused_run(
    definition: dict[str, Any], facts: dict[str, Any], mode: str, reason: str
) -> None:
    planned = plan(definition, **facts)
    assert planned.mode == mode
    assert planned.reason is not None
    assert reason in planned.reason


def test_an_append_reads_new_rows() -> None:
    assert plan({"mode": "append", "key": []}) == RunPlan(NextMode.APPEND)
