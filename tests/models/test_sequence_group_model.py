"""Rule 1.10 of docs/protocols.md holds in every explored world; without one of its parts a world breaks."""

from __future__ import annotations

import pytest

from tests.models.explore import exhaust, walk
from tests.models.sequence_groups import Rules, World, check_with, group_steps

STATES = 4_000


def test_the_rules_hold() -> None:
    seen = exhaust(World(), group_steps(Rules()), check_with(Rules()), STATES)
    assert seen.violations == {}
    assert seen.is_complete or seen.states >= STATES


def test_the_rules_hold_in_random_histories() -> None:
    start = World(left=(("commit", 9), ("merge", 5)))
    seen = walk(start, group_steps(Rules()), check_with(Rules()), histories=60, length=24)
    assert seen.violations == {}


@pytest.mark.parametrize("rule", Rules._fields)
def test_each_rule_is_needed(rule: str) -> None:
    rules = Rules(**{rule: False})
    start = World(left=(("commit", 3), ("merge", 1)))
    seen = exhaust(start, group_steps(rules), check_with(rules), STATES)
    assert "the view differs from the replay" in seen.violations
