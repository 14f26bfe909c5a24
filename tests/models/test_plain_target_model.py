"""Rule 8.20 of docs/protocols.md holds in every explored world; without it a world breaks."""

from __future__ import annotations

import pytest

from tests.models.explore import exhaust
from tests.models.plain_targets import Rules, World, check, plain_steps

STATES = 4_000
NEEDED = [
    ("checks_files", "a row is in the table twice"),
    ("checks_files", "a deleted row is back"),
]


def test_the_rules_hold() -> None:
    seen = exhaust(World(), plain_steps(Rules()), check, STATES)
    assert seen.violations == {}
    assert seen.states > 100


@pytest.mark.parametrize(("rule", "violation"), NEEDED)
def test_each_rule_is_needed(rule: str, violation: str) -> None:
    seen = exhaust(World(), plain_steps(Rules()._replace(**{rule: False})), check, STATES)
    assert violation in seen.violations
