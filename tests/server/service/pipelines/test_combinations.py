"""Sets of tables, backfills, replays, bounded runs and held runs together (docs/protocols.md, rules 8.9 to 8.19)."""

from __future__ import annotations

import pytest

from catalog.pipelines.backfill import BackfillId
from firn.protocol.backfills import BackfillRequest, BackfillStatus, ReplayRequest
from server.service.pipelines.backfills import PipelineBackfills
from tests.server.lake import PLAIN
from tests.server.service.pipelines.set_run import FIRST, SECOND, TOTAL, SetRun
from tests.server.service.pipelines.stage import DAILY, PipelineStage


@pytest.fixture
def pair(stage: PipelineStage) -> PipelineStage:
    """Two tables that move together, built."""
    stage.lake.append(PLAIN)
    stage.put(FIRST, SECOND)
    stage.create_target()
    stage.lake.create(TOTAL)
    end(SetRun.begin(stage))
    return stage


def end(run: SetRun) -> bool:
    """Commit, and report; whether the commit waits for approval."""
    is_held = run.publish().is_held
    run.report()
    return is_held


def hold_all(stage: PipelineStage) -> None:
    stage.put(*({**table, "audit": "hold"} for table in (FIRST, SECOND)))


def backfills(stage: PipelineStage) -> PipelineBackfills:
    return stage.lake.services.pipeline_backfills


def request(stage: PipelineStage) -> BackfillId:
    """A backfill of one chunk of the set's second table."""
    body = BackfillRequest(where="id = 1", chunks=1)
    return backfills(stage).request("orders", TOTAL, body, "ann").backfill.id


def replay(stage: PipelineStage, checkpoint: str) -> BackfillId:
    return backfills(stage).replay("orders", DAILY, ReplayRequest(checkpoint=checkpoint), "ann").backfill.id


def statuses(stage: PipelineStage, of_total: BackfillId, of_daily: BackfillId) -> list[BackfillStatus]:
    table_backfills = ((TOTAL, of_total), (DAILY, of_daily))
    return [backfills(stage).get("orders", table, key).backfill.status for table, key in table_backfills]


def test_a_run_of_a_set_takes_the_backfills_of_all_its_tables(pair: PipelineStage) -> None:
    view = pair.view().checkpoint
    assert view is not None
    backfill_ids = request(pair), replay(pair, view.id)
    dead = SetRun.begin(pair)
    run = dead.again()  # the attempt pins again, so the first pins release their chunks
    assert (run.daily.chunks, run.daily.replay) == (None, view)
    assert run.total.replay is None
    assert run.total.chunks is not None
    assert statuses(pair, *backfill_ids) == [BackfillStatus.ACTIVE] * 2
    end(run)
    assert statuses(pair, *backfill_ids) == [BackfillStatus.FINISHED] * 2


@pytest.mark.parametrize("decision", ["publish", "discard"])
def test_backfills_of_a_held_run_end_when_it_is_published(pair: PipelineStage, decision: str) -> None:
    hold_all(pair)
    view = pair.view().checkpoint
    assert view is not None
    backfill_ids = request(pair), replay(pair, view.id)
    assert end(SetRun.begin(pair))
    assert statuses(pair, *backfill_ids) == [BackfillStatus.ACTIVE] * 2
    assert [pair.view(table).next_run for table in (DAILY, TOTAL)] == [None, None]
    held = pair.lake.services.held_runs
    if decision == "publish":
        held.publish("orders", DAILY)
        assert statuses(pair, *backfill_ids) == [BackfillStatus.FINISHED] * 2
        return
    held.discard("orders", DAILY)
    assert statuses(pair, *backfill_ids) == [BackfillStatus.ACTIVE] * 2
    again = SetRun.begin(pair)
    assert (again.daily.replay, again.total.chunks is None) == (view, False)


def test_a_bounded_run_that_waits_is_followed_by_the_next_one_when_it_is_published(pair: PipelineStage) -> None:
    pair.put(*({**table, "audit": "hold", "max_commits": 1} for table in (FIRST, SECOND)))
    for _ in range(3):
        pair.lake.append(PLAIN)
    run = SetRun.begin(pair)
    assert (run.daily.commits_left, run.total.commits_left) == (2, 2)
    assert end(run)
    assert pair.view().next_run is None
    pair.lake.services.held_runs.publish("orders", DAILY)
    assert [pair.view(table).next_run is not None for table in (DAILY, TOTAL)] == [True, True]
    assert SetRun.begin(pair).daily.commits_left == 1
