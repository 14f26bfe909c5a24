"""Whether a run may add changes to the target's rows: rules 8.29 and 8.30 of docs/protocols.md."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from firn.pipelines import incremental
from firn.protocol.answers.changes import ChangePlan, FeedCommit, FeedVersion
from firn.protocol.answers.writers import WriterOut
from firn.protocol.backfills import RunChunks
from firn.protocol.pipeline_pins import Checkpoint, TargetPins
from firn.protocol.pipelines import TableDefinition
from optimizer.pipelines.exact_rows import has_only_commit
from optimizer.pipelines.maintaining import can_be_exact, find_group_changes

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUERY = "SELECT t.day, count(*) AS n FROM raw.trip t JOIN raw.driver d ON t.driver = d.driver GROUP BY t.day"
SCHEMA = {"raw.trip": {"driver": "int", "day": "date"}, "raw.driver": {"driver": "int"}}
PLAN = incremental(QUERY, SCHEMA, key=["day"])
DROP = {"name": "few", "kind": "expect", "severity": "drop", "condition": "n > 0"}


def define(**changes: Any) -> TableDefinition:
    facts = {
        "name": "mart.daily",
        "query": QUERY,
        "path": "daily.sql",
        "line": 1,
        "inputs": ["raw.trip", "raw.driver"],
        "key": ["day"],
        "fingerprint": "0" * 64,
        "incremental": True,
    }
    return TableDefinition.model_validate(facts | changes)


def build_pins(**changes: Any) -> TargetPins:
    checkpoint = Checkpoint(id="c", fingerprint="0" * 64, pinned_at=NOW, pins=[])
    writer = WriterOut(
        name="w",
        epoch=1,
        position="c",
        registered_at=NOW,
        registered_by=None,
        committed_at=None,
        snapshot_id=None,
        fenced_at=None,
    )
    pins = TargetPins(table="mart.daily", writer=writer, since=checkpoint, full_reason=None, until=checkpoint)
    return pins.model_copy(update=changes)


def test_a_table_of_the_pipeline_alone_can_be_exact() -> None:
    assert can_be_exact(define(), PLAN)


@pytest.mark.parametrize(
    "changes",
    [
        {"validators": [DROP]},
        {"mode": "columns", "columns": ["n"]},
        {"mode": "overwrite", "key": []},
        {"inputs": ["raw.trip", "MART.daily"]},
        {"code": {"transforms": [{"function": {"path": "a.py", "name": "f"}, "scope": "row"}]}},
    ],
)
def test_a_table_with_rows_of_others_cannot(changes: dict[str, Any]) -> None:
    assert not can_be_exact(define(**changes), PLAN)


def test_a_table_whose_query_takes_no_changes_cannot() -> None:
    assert not can_be_exact(define(), incremental("SELECT day FROM raw.trip", SCHEMA, key=["day"]))


def test_changes_of_one_input_are_added_without_a_backfill_only() -> None:
    chunks = RunChunks(backfill="b", where="day > 1", chunks=[])
    replayed = build_pins().since
    assert find_group_changes(PLAN, build_pins(), ["raw.trip"]) is not None
    assert find_group_changes(PLAN, build_pins(), ["raw.trip", "raw.driver"]) is None
    for changes in ({"chunks": chunks}, {"replay": replayed}, {"writes_unchanged": True}):
        assert find_group_changes(PLAN, build_pins(**changes), ["raw.trip"]) is None


def plan_changes(*appends: str, direct: tuple[str, ...] = (), base_known: bool = True) -> ChangePlan:
    def commit(snapshot_id: str) -> FeedCommit:
        return FeedCommit(snapshot_id=snapshot_id, parent_id=None, sequence_number=1, version=1, committed_at=NOW)

    version = FeedVersion(
        version=1,
        committed_at=NOW,
        base_snapshot_id=None,
        change_snapshot_id=None,
        watermark=0,
        base="base",
        change="change",
        sql=None,
    )
    return ChangePlan(
        primary_key=["day"],
        sequence_field=None,
        columns=["day", "n"],
        partial=False,
        insert_only=False,
        since=version,
        until=version,
        appends=[commit(snapshot_id) for snapshot_id in appends],
        direct=[commit(snapshot_id) for snapshot_id in direct],
        base_known=base_known,
        segments=[],
    )


def test_rows_stay_exact_while_only_the_run_itself_has_committed() -> None:
    assert has_only_commit(plan_changes("7"), "7")
    assert has_only_commit(plan_changes(), None)


@pytest.mark.parametrize(
    ("feed", "own"),
    [
        (plan_changes("7", "8"), "7"),  # after the run
        (plan_changes("6", "7"), "7"),  # while it computed
        (plan_changes("8"), None),
        (plan_changes(), "7"),  # somebody has rolled the table back
        (plan_changes("7", direct=("3",)), "7"),  # a ttl job
        (plan_changes("7", base_known=False), "7"),  # nobody knows any more
    ],
)
def test_commits_of_others_end_it(feed: ChangePlan, own: str | None) -> None:
    assert not has_only_commit(feed, own)
