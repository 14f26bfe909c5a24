"""Rules 1.7 and 1.8 of docs/protocols.md hold in every explored world; without one of them a world breaks."""

from __future__ import annotations

import pytest

from tests.models.explore import exhaust, walk
from tests.models.partial import Rules, World, check_with, partial_steps

STATES = 4_000
NEEDED = [
    "folds_columns",
    "delete_resets",
    "keeps_base",
    "ttl_looks_again",
    "sums_since_delete",
    "sums_with_base",
    "names_batches",
]


def test_the_rules_hold() -> None:
    seen = exhaust(World(), partial_steps(Rules()), check_with(Rules()), STATES)
    assert seen.violations == {}
    assert seen.is_complete or seen.states >= STATES


def test_the_rules_hold_in_random_histories() -> None:
    start = World(left=(("commit", 9), ("job", 7), ("again", 1)))
    seen = walk(start, partial_steps(Rules()), check_with(Rules()), histories=60, length=30)
    assert seen.violations == {}


@pytest.mark.parametrize("rule", NEEDED)
def test_each_rule_is_needed(rule: str) -> None:
    """Few steps break most rules; the job that deletes old rows needs a merge before."""
    rules, start = Rules(**{rule: False}), World()
    if rule == "ttl_looks_again":
        start = World(left=(("commit", 2), ("job", 2), ("again", 0)))
    seen = exhaust(start, partial_steps(rules), check_with(rules), STATES)
    assert "the view differs from the replay" in seen.violations


def test_every_rule_has_a_history_that_breaks_without_it() -> None:
    assert set(Rules._fields) == set(NEEDED)
