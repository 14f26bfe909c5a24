"""The parts of rule 1.7 of docs/protocols.md hold in every explored world; without one of them a world breaks."""

from __future__ import annotations

import pytest

from tests.models.explore import exhaust, walk
from tests.models.partial import Rules, World, check_with, partial_steps

STATES = 20_000
NEEDED = ["folds_columns", "delete_resets", "keeps_base", "ttl_looks_again"]


def test_the_rules_hold() -> None:
    seen = exhaust(World(), partial_steps(Rules()), check_with(Rules()), STATES)
    assert seen.violations == {}
    assert seen.is_complete or seen.states >= STATES


def test_the_rules_hold_in_random_histories() -> None:
    start = World(left=(("commit", 9), ("job", 7)))
    seen = walk(start, partial_steps(Rules()), check_with(Rules()), histories=200, length=30)
    assert seen.violations == {}


@pytest.mark.parametrize("rule", NEEDED)
def test_each_rule_is_needed(rule: str) -> None:
    rules = Rules(**{rule: False})
    seen = exhaust(World(), partial_steps(rules), check_with(rules), STATES)
    assert "the view differs from the replay" in seen.violations


def test_every_rule_has_a_history_that_breaks_without_it() -> None:
    assert set(Rules._fields) == set(NEEDED)
