"""What the planner plans can be run: a job that nobody takes would keep its table from every other."""

from __future__ import annotations

from catalog.planning.decide import NEEDS

from catalog.job import AFTER_A_LOOK, WHEN_ASKED, JobKind
from optimizer.jobs import JOBS
from optimizer.reads import READS
from server.service.planner import _FOR_KEYED, _FOR_PLAIN
from server.service.tasks import _BUILDERS

PLANNED = {JobKind(need.__name__) for need in NEEDS}
"""The function that judges a kind has the kind's name."""


def test_every_kind_is_planned_once_but_for_what_begins_with_a_look_at_hive_or_is_only_asked_for() -> None:
    assert set(JobKind) - AFTER_A_LOOK - WHEN_ASKED == PLANNED
    assert len(NEEDS) == len(PLANNED)


def test_every_planned_kind_has_facts_and_an_optimizer_that_runs_it() -> None:
    assert set(_BUILDERS) >= PLANNED | WHEN_ASKED
    assert set(JOBS) == set(JobKind)


def test_every_kind_says_what_it_opens() -> None:
    """One that does not would open whatever a table's metadata names."""
    assert set(READS) == set(JobKind)
    assert {kind for kind, reads in READS.items() if reads is READS["tags"]} == {"tags", "expire", "orphans"}


def test_every_planned_kind_may_be_asked_for_on_a_table_that_it_is_planned_for() -> None:
    assert _FOR_KEYED == PLANNED | WHEN_ASKED
    assert PLANNED - {JobKind.MERGE, JobKind.CLEAN, JobKind.COMPACT} == _FOR_PLAIN
