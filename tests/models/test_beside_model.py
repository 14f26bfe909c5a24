"""The rules of decisions 180 and 187 hold in the explored worlds; without one of them a world breaks."""

from __future__ import annotations

import pytest

from tests.models.beside import Rules, Snapshot, Step, World, beside_steps, build, check_with
from tests.models.explore import exhaust, walk

WRONG_ROWS = "the table is not the result of its checkpoint"
NOT_DONE = "a chunk is done, and its row is not"
NEEDED = {
    "reads_at_checkpoint": WRONG_ROWS,
    "drops_written": WRONG_ROWS,
    "checks_at_commit": WRONG_ROWS,
    "lives_write_unchanged": WRONG_ROWS,
    "fences_at_request": WRONG_ROWS,
    "checks_history": WRONG_ROWS,
    "checks_snapshot": NOT_DONE,
    "done_by_snapshot": NOT_DONE,
    "compares_both_sides": NOT_DONE,
    "skips_need_position": NOT_DONE,
    "full_stops_chunks": WRONG_ROWS,
    "full_compares_after_claim": WRONG_ROWS,
    "waits_end_with_epoch": WRONG_ROWS,
}


def build_with_an_extra_row() -> World:
    """A table with a row that the query does not give."""
    extra = Snapshot((1, 2), damaged=frozenset({0}), line=(Step(1, frozenset()),))
    return build(damage=0, run=1, change=1)._replace(history=((None, 2),), head=extra)


def test_the_rules_hold() -> None:
    seen = exhaust(build(rollback=1), beside_steps(Rules()), check_with(Rules()), 4_000)
    assert seen.violations == {}


def test_the_rules_hold_in_random_histories() -> None:
    start = build(rollback=1, change=4, run=4, take=5, damage=2, crash=2, full=1)
    seen = walk(start, beside_steps(Rules()), check_with(Rules()), histories=800, length=40)
    assert seen.violations == {}
    assert seen.states > 10_000


@pytest.mark.parametrize("rule", Rules._fields)
def test_each_rule_is_needed(rule: str) -> None:
    rules = Rules()._replace(**{rule: False})
    start = build_with_an_extra_row() if rule == "compares_both_sides" else build(change=3, run=3, rollback=1)
    if rule.startswith(("full", "waits")):
        start = build(change=1, run=1, full=1, take=2, damage=1)
    wanted = NEEDED[rule]
    seen = walk(start, beside_steps(rules), check_with(rules), histories=12_000, length=30, wanted=wanted)
    assert wanted in seen.violations, seen
