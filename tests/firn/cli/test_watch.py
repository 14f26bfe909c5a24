"""How far long work is, in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from firn.cli.watch import describe_pace, format_span
from firn.protocol.answers.operations import OperationOut
from firn.protocol.operations import OperationStatus

BEGAN = datetime(2026, 11, 23, 12, tzinfo=UTC)


def an_operation(**args: object) -> OperationOut:
    known = {
        "id": uuid4(),
        "kind": "upgrade",
        "catalog": "lake",
        "batch": None,
        "error": None,
        "hint": None,
        "result": {},
        "ended_at": None,
        "phase_at": None,
        "allowed_actions": [],
        "target": "db.orders",
        "status": OperationStatus.RUNNING,
        "outcome": "running",
        "phase": "reading footers",
        "message": "",
        "unit": "files",
        "done": 0,
        "total": 0,
        "created_at": BEGAN - timedelta(hours=1),
        "updated_at": BEGAN,
    }
    return OperationOut.model_validate(known | args)


def test_pace_and_time_left_are_those_of_the_phase() -> None:
    assert describe_pace(an_operation()) == ""
    assert describe_pace(an_operation(total=1200)) == "0 of 1,200 files"
    after = {"phase_at": BEGAN, "updated_at": BEGAN + timedelta(seconds=20), "total": 1200}
    assert describe_pace(an_operation(done=300, **after)) == "300 of 1,200 files, 15/s, 1 min left"
    assert describe_pace(an_operation(done=30, **after)) == "30 of 1,200 files, 1.5/s, 13 min left"
    paused = an_operation(done=300, status=OperationStatus.PAUSED, **after)
    assert describe_pace(paused) == "300 of 1,200 files"


def test_spans_have_two_units() -> None:
    texts = [format_span(seconds) for seconds in (0.4, 59, 60, 3_725, 90_000)]
    assert texts == ["0 s", "59 s", "1 min", "1 h 2 min", "1 d 1 h"]
