"""The rules of docs/protocols.md#pipelines hold in every explored world; without one of them a world breaks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.models.explore import exhaust, find_stuck, walk
from tests.models.pipeline_states import Copy, Rules, World
from tests.models.pipelines import CHECK, EVENTS, budget, is_done, pipeline_steps

STATES = 2_500
WRONG_ROWS = "the table is not the result of its checkpoint"
REFUSED = "the newest run was refused"
CANCELLED = "a cancelled run has committed"
CALM = {"crash": 0, "lapse": 0, "lose": 0}
EXPIRY = {"expire": 2, "change": 3, "crash": 0, "lose": 0}
NEEDED = [
    ("registers_first", REFUSED, {}),
    ("pins_together", "a run joins states of two moments", {}),
    ("checks_lease", CANCELLED, {"cancel": 1}),
    ("compares_position", "a run has committed twice", {"repeat": 1}),
    ("compares_position", WRONG_ROWS, {"rollback": 1}),
    ("fences_epoch", REFUSED, {}),
    ("commits_at_once", WRONG_ROWS, {"take": 2, **CALM}),
    ("settles", "a run that has committed takes itself for overtaken", {"lose": 2}),
    ("moves_as_commit", WRONG_ROWS, {"rollback": 1}),
    ("rolls_position_back", WRONG_ROWS, {"rollback": 1}),
    ("full_if_rolled_back", WRONG_ROWS, {"undo": 1}),
    ("full_if_recreated", WRONG_ROWS, {"recreate": 1}),
    ("full_if_expired", WRONG_ROWS, {"outlive": 1, **EXPIRY}),
    ("full_if_redefined", WRONG_ROWS, {"define": 1}),
    ("protects_checkpoint", "the next run is full without need", EXPIRY),
    ("protects_newest_run", "a run cannot read what it has pinned", EXPIRY),
    ("cancel_fences", CANCELLED, {"cancel": 1}),
    ("drop_fences", CANCELLED, {"drop": 1}),
    ("reset_moves_position", "a reset was forgotten", {"reset": 1}),
]


@pytest.mark.parametrize("event", [None, *EVENTS])
def test_the_rules_hold(event: str | None) -> None:
    some = {} if event is None else {event: 1}
    seen = exhaust(World(left=budget(**some)), pipeline_steps(Rules()), CHECK, STATES)
    assert seen.violations == {}
    assert seen.states >= STATES


def test_the_rules_hold_with_three_copies_in_random_histories() -> None:
    left = budget(change=5, take=9, lose=4, crash=3, lapse=4, **EVENTS)
    seen = walk(World(copies=(Copy(),) * 3, left=left), pipeline_steps(Rules()), CHECK, histories=150, length=70)
    assert seen.violations == {}
    assert seen.states > 4_000


@pytest.mark.parametrize(("rule", "violation", "events"), NEEDED)
def test_each_rule_is_needed(rule: str, violation: str, events: dict[str, int]) -> None:
    start = World(left=budget(**{"take": 4, **events}))
    steps = pipeline_steps(Rules()._replace(**{rule: False}))
    seen = walk(start, steps, CHECK, histories=2_000, length=40, wanted=violation)
    assert violation in seen.violations


def test_expiry_has_to_look_for_pins_again() -> None:
    start = World(copies=(Copy(),), left=budget(**{"change": 1, "take": 2, "rollback": 1, "expire": 1, **CALM}))
    seen = exhaust(start, pipeline_steps(Rules(expiry_checks_again=False)), CHECK, 20_000, stop_at_first=True)
    assert "the next run is full without need" in seen.violations


def test_every_rule_has_a_history_that_breaks_without_it() -> None:
    assert {rule for rule, _, _ in NEEDED} | {"expiry_checks_again"} == set(Rules._fields)


@pytest.mark.parametrize("event", ["undo", "recreate", "rollback", "define", "reset", "drop", "crash"])
def test_the_table_can_still_become_current(event: str) -> None:
    calm = World(copies=(Copy(),), left=budget(**{"change": 1, "take": 9, **CALM, event: 1}))
    steps = pipeline_steps(Rules())

    def useful_steps(world: World) -> Iterator[tuple[str, World]]:
        return (step for step in steps(world) if not (is_done(world) and step[0].endswith("takes the lease")))

    is_complete, stuck = find_stuck(calm, useful_steps, is_done, 20_000)
    assert is_complete
    assert stuck is None
