"""Rules 8.9 to 8.13 of docs/protocols.md hold in every explored world; without one of them a world breaks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.models.backfills import EVENTS, Copy, Rules, World, backfill_steps, budget, build, check_with, is_done
from tests.models.explore import exhaust, find_stuck, walk

WRONG_ROWS = "the table is not the result of its checkpoint"
NOT_DONE = "a chunk is done, and its rows are not"
NEEDED = [
    ("done_with_commit", NOT_DONE, {}),
    ("pins_release", NOT_DONE, {"pause": 1}),
    ("reads_own_pins", WRONG_ROWS, {}),
    ("compares_both_sides", NOT_DONE, {}),
    ("rollback_reopens", NOT_DONE, {"rollback": 1}),
    ("full_run_claims_older", NOT_DONE, {"full": 1}),
    ("replay_adds", WRONG_ROWS, {"replay": 1, "backfill": 0}),
]


@pytest.mark.parametrize("event", [None, *EVENTS])
def test_the_rules_hold(event: str | None) -> None:
    some = {} if event is None else {event: 1, "resume": 1}
    seen = exhaust(build(**some), backfill_steps(Rules()), check_with(Rules()), 4_000)
    assert seen.violations == {}
    assert seen.states >= 4_000


def test_the_rules_hold_in_long_random_histories() -> None:
    some = dict.fromkeys(EVENTS, 1)
    left = budget(**{**some, "change": 6, "run": 12, "crash": 3, "damage": 3, "resume": 2})
    seen = walk(
        World(copies=(Copy(),) * 3, left=left), backfill_steps(Rules()), check_with(Rules()), histories=400, length=70
    )
    assert seen.violations == {}
    assert seen.states > 10_000


@pytest.mark.parametrize(("rule", "violation", "events"), NEEDED)
def test_each_rule_is_needed(rule: str, violation: str, events: dict[str, int]) -> None:
    rules = Rules()._replace(**{rule: False})
    start = build(**{"run": 5, **events})
    seen = walk(start, backfill_steps(rules), check_with(rules), histories=6_000, length=40, wanted=violation)
    assert violation in seen.violations


def test_every_rule_has_a_history_that_breaks_without_it() -> None:
    assert {rule for rule, _, _ in NEEDED} == set(Rules._fields)


@pytest.mark.parametrize("event", ["rollback", "reset", "pause", "cancel", "crash", "replay"])
def test_a_backfill_can_still_end(event: str) -> None:
    start = build(**{"change": 0, "run": 6, "crash": 0, "damage": 0, "resume": 1, event: 1})._replace(copies=(Copy(),))
    steps = backfill_steps(Rules())

    def useful_steps(world: World) -> Iterator[tuple[str, World]]:
        waits = is_done(world) or bool(world.requests)  # another registration ends a request
        return (step for step in steps(world) if not (waits and step[0].endswith("pins")))

    is_complete, stuck = find_stuck(start, useful_steps, is_done, 60_000)
    assert is_complete
    assert stuck is None
