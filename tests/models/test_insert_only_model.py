"""Rule 1.9 of docs/protocols.md holds in every explored world; without one of its parts a world breaks."""

from __future__ import annotations

import pytest

from tests.models.explore import exhaust, walk
from tests.models.insert_only import Rules, World, check_with, insert_only_steps

STATES = 4_000


def test_the_rule_holds() -> None:
    seen = exhaust(World(), insert_only_steps(Rules()), check_with(Rules()), STATES)
    assert seen.violations == {}
    assert seen.is_complete or seen.states >= STATES


def test_the_rule_holds_in_random_histories() -> None:
    start = World(left=(("commit", 9), ("job", 7)))
    seen = walk(start, insert_only_steps(Rules()), check_with(Rules()), histories=60, length=30)
    assert seen.violations == {}


@pytest.mark.parametrize("rule", Rules._fields)
def test_each_part_is_needed(rule: str) -> None:
    """Few commits break each part; a job that deletes old rows needs a merge before."""
    rules, start = Rules(**{rule: False}), World(left=(("commit", 2), ("job", 2)))
    seen = exhaust(start, insert_only_steps(rules), check_with(rules), STATES)
    assert "the view differs from the replay" in seen.violations
