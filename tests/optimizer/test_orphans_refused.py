"""A place that is not proved to be the table's own: whoever asked for its orphans is told, a schedule is answered."""

from __future__ import annotations

from typing import Any, cast

import pytest

from firn.protocol.leases import Outcome
from optimizer.errors import Refused
from optimizer.job_run import JobRun
from optimizer.jobs import remove_orphans
from tests.optimizer.leases import a_lease

WHY = "the server removes no orphans of db.t: lake.db.other uses its place"


class Refusing:
    """The server and the hold of a job whose place is shared."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def ask(self, *_: object, **__: object) -> dict[str, Any]:
        raise Refused(WHY)

    def stage(self, _: str) -> None: ...

    def say(self, line: str) -> None:
        self.lines.append(line)


def work(*, requested: bool) -> tuple[JobRun, Refusing]:
    task: dict[str, Any] = {"tables": [], "published": None, "unrepresentable": None}
    task |= {"before_ms": 0, "dry_run": False, "requested": requested}
    lease = a_lease(kind="remove-orphans", table="db.t", task=task)
    refusing = Refusing()
    return JobRun(cast("Any", refusing), lease, cast("Any", refusing), cast("Any", None)), refusing


def test_one_that_was_asked_for_fails() -> None:
    with pytest.raises(Refused, match="uses its place"):
        remove_orphans.run(work(requested=True)[0])


def test_one_by_schedule_is_over_with_the_reason() -> None:
    scheduled, keeper = work(requested=False)
    result = remove_orphans.run(scheduled)
    assert (result.outcome, result.result) == (Outcome.NOTHING, {"refused": WHY})
    assert keeper.lines == [WHY]
