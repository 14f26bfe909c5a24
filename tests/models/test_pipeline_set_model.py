"""The rules of docs/protocols.md#pipelines about sets and held runs; without one of them a world breaks."""

from __future__ import annotations

import pytest

from tests.models.explore import exhaust, walk
from tests.models.pipeline_sets import CHECK, EVENTS, Rules, World, budget, set_steps

STATES = 4_000
MIXED = "a reader sees two states"
DELETED = "a table needs a file that was deleted"
NEEDED = [
    ("commits_together", MIXED, {}),
    ("checks_all", MIXED, {"reset": 1, "rollback": 1}),
    ("moves_together", "the tables have checkpoints of two runs", {}),
    ("pins_together", MIXED, {}),
    ("holds_as_commit", "a cancelled run is held", {"hold": 1, "cancel": 1}),
    ("held_blocks_pins", "a held run was replaced by another one", {"hold": 2}),
    ("publishes_as_commit", MIXED, {"hold": 1, "rollback": 1}),
    ("keeps_held_files", "a held run has lost its files", {"hold": 1, "clean": 1}),
    ("discard_fences", DELETED, {"hold": 1, "clean": 1}),
]


@pytest.mark.parametrize("event", [None, *EVENTS])
def test_the_rules_hold(event: str | None) -> None:
    some = {} if event is None else {event: 1}
    if event == "clean":
        some["hold"] = 1
    seen = exhaust(World(left=budget(**some)), set_steps(Rules()), CHECK, STATES)
    assert seen.violations == {}
    assert seen.states >= STATES


def test_the_rules_hold_in_random_histories() -> None:
    left = budget(change=5, take=9, lose=4, crash=3, **dict.fromkeys(EVENTS, 2))
    seen = walk(World(left=left), set_steps(Rules()), CHECK, histories=300, length=80)
    assert seen.violations == {}
    assert seen.states > 4_000


@pytest.mark.parametrize(("rule", "violation", "events"), NEEDED)
def test_each_rule_is_needed(rule: str, violation: str, events: dict[str, int]) -> None:
    start = World(left=budget(**{"take": 4, **events}))
    seen = walk(
        start, set_steps(Rules()._replace(**{rule: False})), CHECK, histories=4_000, length=40, wanted=violation
    )
    assert violation in seen.violations


def test_every_rule_has_a_history_that_breaks_without_it() -> None:
    assert {rule for rule, _, _ in NEEDED} == set(Rules._fields)
