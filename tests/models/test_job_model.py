"""The rules of docs/protocols.md#jobs-and-leases, hold in every explored world; without one of them a world breaks."""

from __future__ import annotations

import pytest

from tests.models import deletion
from tests.models.explore import exhaust, find_stuck, walk
from tests.models.jobs import CHECK, Optimizer, Rules, World, budget, is_ended, job_steps

STATES = 8_000
START = World(left=budget())
NEEDED = [
    ("ends_lease", True, "CANCELED, but its commit is in the table"),
    ("fences_in_commit", True, "CANCELED, but its commit is in the table"),
    ("records_commit", True, "files of an applied commit were deleted"),
    ("replays_first", True, "files of an applied commit were deleted"),
    ("fences_everything", False, "CANCELED, but its commit is in the table"),
]
DELETIONS_NEEDED = [
    ("refuses_referenced", "the snapshot of a ref was removed"),
    ("computes_after_commit", "a referenced file was deleted"),
    ("refuses_old_leases", "a referenced file was deleted"),
]


@pytest.mark.parametrize("makes_snapshot", [True, False])
def test_the_rules_hold(makes_snapshot: bool) -> None:  # noqa: FBT001
    seen = exhaust(START, job_steps(Rules(), makes_snapshot=makes_snapshot), CHECK, STATES)
    assert seen.violations == {}
    assert seen.states >= STATES


@pytest.mark.parametrize("makes_snapshot", [True, False])
def test_the_rules_hold_with_three_optimizers_in_random_histories(makes_snapshot: bool) -> None:  # noqa: FBT001
    left = budget(expire=4, lose=4, crash=3, cancel=1, trim=2, lease=5)
    start = World(optimizers=(Optimizer(),) * 3, left=left)
    seen = walk(start, job_steps(Rules(), makes_snapshot=makes_snapshot), CHECK, histories=500, length=60)
    assert seen.violations == {}
    assert seen.states > 2_000


@pytest.mark.parametrize(("rule", "makes_snapshot", "violation"), NEEDED)
def test_each_rule_is_needed(rule: str, makes_snapshot: bool, violation: str) -> None:  # noqa: FBT001
    steps = job_steps(Rules()._replace(**{rule: False}), makes_snapshot=makes_snapshot)
    assert violation in exhaust(START, steps, CHECK, STATES).violations


def test_every_rule_has_a_history_that_breaks_without_it() -> None:
    assert {rule for rule, _, _ in NEEDED} == set(Rules._fields)
    assert {rule for rule, _ in DELETIONS_NEEDED} == set(deletion.Rules._fields)


def test_every_job_can_still_end() -> None:
    calm = World(left=budget(expire=1, crash=0, lose=1, lease=2, cancel=0, trim=0))
    is_complete, stuck = find_stuck(calm, job_steps(Rules()), is_ended, 60_000)
    assert is_complete
    assert stuck is None


def test_expiry_and_orphan_removal_delete_nothing_that_is_needed() -> None:
    seen = exhaust(deletion.World(), deletion.deletion_steps(deletion.Rules()), deletion.check, 5_000)
    assert seen.is_complete
    assert seen.violations == {}


@pytest.mark.parametrize(("rule", "violation"), DELETIONS_NEEDED)
def test_each_rule_of_deletion_is_needed(rule: str, violation: str) -> None:
    rules = deletion.Rules()._replace(**{rule: False})
    seen = exhaust(deletion.World(), deletion.deletion_steps(rules), deletion.check, 5_000)
    assert violation in seen.violations
