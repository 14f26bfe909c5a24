"""OpenLineage events of runs: each is sent once, and no endpoint fails or delays a run."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from catalog.errors import CatalogError, Invalid, Unavailable
from catalog.history.commit import Outcome
from catalog.jobs.job import Job, JobStatus
from catalog.pipelines.openlineage import EventBuilder, EventType
from server.lineage_settings import LineageSettings
from server.openlineage.file_sink import FileSink
from server.service.pipelines import lineage_events
from server.service.pipelines.lineage_events import LineageEvents, LineageStatus
from tests.openlineage_events import read_event
from tests.server.clocks import HOUR, Clock
from tests.server.lake import PLAIN
from tests.server.service.pipelines.set_run import FIRST, SECOND, TOTAL, SetRun
from tests.server.service.pipelines.stage import DAILY, DEFINED, PipelineStage

LINEAGE = [{"column": "id", "sources": [{"table": "db.plain", "column": "id"}]}, {"column": "n"}]


@dataclass
class ListSink:
    """Keeps events that the standard's client understands; raises `error` instead, if it is set."""

    events: list[dict[str, Any]] = field(default_factory=list)
    error: CatalogError | None = None

    def send(self, event: bytes) -> None:
        if self.error is not None:
            raise self.error
        document = json.loads(event)
        read_event(document)
        self.events.append(document)

    def types(self) -> list[str]:
        return [event["eventType"] for event in self.events]


@pytest.fixture
def sink() -> ListSink:
    return ListSink()


@pytest.fixture
def events(stage: PipelineStage, sink: ListSink) -> LineageEvents:
    """The leader has looked once."""
    stage.lake.append(PLAIN)
    stage.put({**DEFINED, "lineage": LINEAGE})
    stage.create_target()
    events = LineageEvents(stage.lake.services.database, sink, EventBuilder(namespace="firn", version="1"))
    events.activate()
    return events


def test_a_run_is_told_from_its_start_to_its_end(stage: PipelineStage, events: LineageEvents, sink: ListSink) -> None:
    attempt = stage.begin()
    assert events.activate() == LineageStatus(sent=1)
    attempt.pin()
    attempt.commit()
    job = stage.lake.services.jobs.report(attempt.lease, None, error=None, result={"mode": "full", "written": 12})
    assert events.activate() == LineageStatus(sent=1)
    assert events.activate() == LineageStatus()  # each once
    start, complete = sink.events
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"] == str(job.id)
    assert complete["job"]["name"] == "orders.mart.daily"
    assert complete["job"]["facets"]["sql"]["query"] == DEFINED["query"]
    assert [entry["name"] for entry in complete["inputs"]] == ["lake.db.plain", "lake.db.orders"]
    (output,) = complete["outputs"]
    assert (output["namespace"], output["name"]) == ("firn", "lake.mart.daily")
    source = {"namespace": "firn", "name": "lake.db.plain", "field": "id"}
    assert output["facets"]["columnLineage"]["fields"] == {"id": {"inputFields": [source]}, "n": {"inputFields": []}}
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 12
    assert "outputFacets" not in start["outputs"][0]
    assert job.ended_at is not None
    assert complete["eventTime"] == job.ended_at.isoformat()


def end(stage: PipelineStage, *, fails: bool) -> Job:
    jobs, attempt = stage.lake.services.jobs, stage.begin()
    if fails:
        return jobs.report(attempt.lease, Outcome.REFUSED, error="audit failed " * 999, result={})
    return jobs.cancel(attempt.lease.job_id)


@pytest.mark.parametrize(("fails", "kind"), [(True, "FAIL"), (False, "ABORT")])
def test_runs_that_end_between_two_looks_have_both_events(
    stage: PipelineStage, events: LineageEvents, sink: ListSink, *, fails: bool, kind: str
) -> None:
    end(stage, fails=fails)
    events.activate()
    assert sink.types() == ["START", kind]
    facets = sink.events[1]["run"]["facets"]
    assert (len(facets["errorMessage"]["message"]) == 2_000) if fails else facets == {}
    events.activate()
    assert len(sink.events) == 2


def test_a_run_that_never_began_and_one_of_a_dropped_pipeline_have_none(
    stage: PipelineStage, events: LineageEvents, sink: ListSink
) -> None:
    stage.lake.services.jobs.cancel(stage.request().id)
    end(stage, fails=True)
    stage.lake.services.pipelines.drop("orders")
    assert events.activate() == LineageStatus()
    assert sink.events == []


def test_the_client_of_the_standard_understands_each_type_of_event(
    stage: PipelineStage, events: LineageEvents, sink: ListSink
) -> None:
    for fails in (True, False):
        end(stage, fails=fails)
    events.activate()
    hold(stage)
    events.activate()
    stage.lake.services.held_runs.publish("orders", DAILY)
    events.activate()
    read = [read_event(document) for document in sink.events]
    assert {str(event.eventType.value) for event in read if event.eventType} == set(EventType)
    lineage = [output.facets["columnLineage"] for event in read for output in event.outputs or [] if output.facets]
    assert len(lineage) == 4  # the held run has none


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("eventType",), "BEGIN", "'BEGIN' is not a valid EventType"),
        (("eventTime",), "2026-11-29T08:00:00", "times have a zone"),
        (("eventTime",), "2026-11-29", "has to contain time"),
        (("run", "runId"), "1", "badly formed"),
        (("job", "title"), "orders", r"Job has no \['title'\]"),
        (("job", "facets", "sql", "_schemaURL"), "https://openlineage.io/spec/facets/1-0-0/SQLJobFacet.json", "1-0-0"),
        (("job", "facets", "errorMessage"), {}, "does not belong there"),
        (("outputs",), {}, "no list"),
        (("schemaURL",), None, "the client has"),
    ],
)
def test_what_is_no_event_of_the_standard_is_seen(
    stage: PipelineStage, events: LineageEvents, sink: ListSink, path: tuple[str, ...], value: Any, message: str
) -> None:
    end(stage, fails=True)
    events.activate()
    document = place = sink.events[0]
    read_event(document)
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    with pytest.raises((AssertionError, ValueError), match=message):
        read_event(document)


def test_another_attempt_is_the_same_run(stage: PipelineStage, events: LineageEvents, sink: ListSink) -> None:
    attempt = stage.begin()
    events.activate()
    stage.lake.services.optimizers.unregister(stage.optimizer)
    assert stage.job(attempt.lease.job_id).status is JobStatus.PENDING
    events.activate()
    stage.optimizer = stage.lake.optimizer()
    assert stage.lease().lease.job_id == attempt.lease.job_id
    events.activate()
    assert sink.types() == ["START"]


def test_a_set_has_all_its_tables(stage: PipelineStage, events: LineageEvents, sink: ListSink) -> None:
    stage.put(FIRST, SECOND)
    stage.lake.create(TOTAL)
    run = SetRun.begin(stage)
    run.publish()
    result = {"mode": "full", "written": 1, "together": {"mart.total": {"written": 2}}}
    stage.lake.services.jobs.report(run.lease, None, error=None, result=result)
    events.activate()
    rows = {
        output["name"]: output["outputFacets"]["outputStatistics"]["rowCount"] for output in sink.events[-1]["outputs"]
    }
    assert rows == {"lake.mart.daily": 1, "lake.mart.total": 2}


@pytest.fixture
def held(stage: PipelineStage, events: LineageEvents) -> SetRun:
    """A run of two tables whose rows wait for approval."""
    return hold(stage)


def hold(stage: PipelineStage) -> SetRun:
    stage.put({**FIRST, "audit": "hold"}, SECOND)
    stage.lake.create(TOTAL)
    run = SetRun.begin(stage)
    assert run.publish().is_held
    result = {"mode": "full", "held": True, "written": 3, "together": {"mart.total": {"written": 4}}}
    stage.lake.services.jobs.report(run.lease, None, error=None, result=result)
    return run


def test_a_held_run_is_complete_when_somebody_publishes_it(
    stage: PipelineStage, held: SetRun, events: LineageEvents, sink: ListSink
) -> None:
    events.activate()
    assert sink.types() == ["START", "RUNNING"]
    assert "outputFacets" not in sink.events[1]["outputs"][0]
    events.activate()
    stage.lake.services.held_runs.publish("orders", DAILY)
    assert events.activate() == LineageStatus(sent=1)
    assert events.activate() == LineageStatus()
    complete = sink.events[-1]
    assert complete["eventType"] == "COMPLETE"
    assert complete["run"]["runId"] == str(held.lease.job_id)
    rows = {entry["name"]: entry["outputFacets"]["outputStatistics"]["rowCount"] for entry in complete["outputs"]}
    assert rows == {"lake.mart.daily": 3, "lake.mart.total": 4}
    job = stage.job(held.lease.job_id)
    assert job.ended_at is not None
    assert complete["eventTime"] > job.ended_at.isoformat()


@pytest.mark.usefixtures("held")
def test_a_held_run_whose_rows_are_discarded_is_aborted(
    stage: PipelineStage, events: LineageEvents, sink: ListSink
) -> None:
    events.activate()
    stage.lake.services.held_runs.discard("orders", DAILY)
    events.activate()
    assert sink.types() == ["START", "RUNNING", "ABORT"]
    assert "outputFacets" not in sink.events[-1]["outputs"][0]


@pytest.mark.usefixtures("held")
def test_a_publication_between_two_looks_is_seen_although_the_next_run_has_begun(
    stage: PipelineStage, events: LineageEvents, sink: ListSink
) -> None:
    events.activate()
    stage.lake.services.held_runs.publish("orders", DAILY)
    stage.lake.append(PLAIN)
    SetRun.begin(stage)  # its pins forget the held run
    events.activate()
    assert sink.types() == ["START", "RUNNING", "COMPLETE", "START"]


def test_a_server_that_leads_again_tells_of_runs_that_wait(stage: PipelineStage, held: SetRun, sink: ListSink) -> None:
    other = LineageEvents(stage.lake.services.database, sink, EventBuilder(namespace="firn", version="1"))
    other.activate()
    stage.lake.services.held_runs.publish("orders", DAILY)
    other.activate()
    assert sink.types() == ["COMPLETE"]
    assert sink.events[0]["run"]["runId"] == str(held.lease.job_id)


@pytest.mark.usefixtures("held")
def test_a_held_run_of_a_dropped_pipeline_has_no_further_event(
    stage: PipelineStage, events: LineageEvents, sink: ListSink
) -> None:
    events.activate()
    stage.lake.services.pipelines.drop("orders")
    events.activate()
    assert sink.types() == ["START", "RUNNING"]


def test_events_wait_while_nobody_takes_them(stage: PipelineStage, events: LineageEvents, sink: ListSink) -> None:
    sink.error = Unavailable("nobody answers")
    end(stage, fails=True)  # no run notices
    for _ in range(3):
        with pytest.raises(Unavailable):
            events.activate()
    sink.error = None
    assert events.activate() == LineageStatus(sent=2)
    assert sink.types() == ["START", "FAIL"]


def test_the_queue_drops_the_oldest(
    stage: PipelineStage, events: LineageEvents, sink: ListSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lineage_events, "MOST_WAITING", 3)
    sink.error = Unavailable("nobody answers")
    for fails in (True, False):
        end(stage, fails=fails)
        with pytest.raises(Unavailable):
            events.activate()
    sink.error = None
    assert events.activate() == LineageStatus(sent=3)
    assert sink.types() == ["FAIL", "START", "ABORT"]


def test_an_event_that_is_refused_does_not_hold_up_others(
    stage: PipelineStage, events: LineageEvents, sink: ListSink
) -> None:
    sink.error = Invalid("refused")
    end(stage, fails=True)
    assert events.activate() == LineageStatus(dropped=2)
    sink.error = None
    end(stage, fails=True)
    assert events.activate() == LineageStatus(sent=2)


def test_a_long_event_has_neither_sql_nor_columns(
    stage: PipelineStage, events: LineageEvents, sink: ListSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lineage_events, "LONGEST_EVENT", 1_000)
    end(stage, fails=False)
    events.activate()
    assert list(sink.events[0]["job"]["facets"]) == ["jobType"]
    assert sink.events[0]["outputs"][0]["facets"] == {}


def test_a_server_that_leads_again_repeats_no_end(
    stage: PipelineStage, events: LineageEvents, sink: ListSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    end(stage, fails=True)  # another server has told it
    monkeypatch.setattr(lineage_events, "_ABSENCE", timedelta(0))
    events.activate()
    assert sink.events == []


def test_runs_that_end_after_the_clock_was_set_back_have_both_events(
    stage: PipelineStage, events: LineageEvents, sink: ListSink, clock: Clock
) -> None:
    clock.stop()
    end(stage, fails=True)
    events.activate()
    clock.wrong = -HOUR
    end(stage, fails=False)
    events.activate()
    assert sink.types() == ["START", "FAIL", "START", "ABORT"]
    clock.wrong = timedelta()
    events.activate()
    assert len(sink.events) == 4


def test_a_file_gets_a_line_for_each_event(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "events.jsonl")
    sink.send(b"{}")
    sink.path.rename(tmp_path / "older.jsonl")
    sink.send(b"[]")
    assert sink.path.read_bytes() == b"[]\n"
    with pytest.raises(Unavailable, match="cannot be written"):
        FileSink(tmp_path / "no" / "events.jsonl").send(b"{}")


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "ftp://host/"},
        {"url": "http://"},
        {"url": "http://user:secret@host/"},
        {"url": "http://host/", "file": "events.jsonl"},
        {"namespace": ""},
        {"seconds": 0},
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        LineageSettings.model_validate(settings)
