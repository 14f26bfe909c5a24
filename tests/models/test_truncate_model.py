"""The rule of truncates holds in every explored world; without one of its parts a world breaks."""

from __future__ import annotations

import pytest

from tests.models.explore import exhaust
from tests.models.truncates import CHECK, Rules, World, truncate_steps

LIMIT = 200_000
NEEDED = [
    ("splits_batches", "a row has outlived the truncate"),
    ("reads_at_position", "a row has outlived the truncate"),
]


def test_the_rules_hold() -> None:
    seen = exhaust(World(), truncate_steps(Rules()), CHECK, LIMIT)
    assert (seen.violations, seen.is_complete) == ({}, True)
    assert seen.states > 1_000


@pytest.mark.parametrize(("rule", "violation"), NEEDED)
def test_each_rule_is_needed(rule: str, violation: str) -> None:
    seen = exhaust(World(), truncate_steps(Rules()._replace(**{rule: False})), CHECK, LIMIT)
    assert violation in seen.violations
