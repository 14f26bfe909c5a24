"""Rule 5.14 of docs/protocols.md holds in every explored world; without one of its parts a world breaks."""

from __future__ import annotations

import pytest

from tests.models.at_read import CHECK, Rules, World, at_read_steps
from tests.models.explore import exhaust, walk

STATES = 12_000


@pytest.mark.parametrize("insert_only", [False, True])
def test_the_rule_holds(*, insert_only: bool) -> None:
    seen = exhaust(World(insert_only), at_read_steps(Rules()), CHECK, STATES)
    assert seen.violations == {}
    assert seen.is_complete or seen.states >= STATES
    left = (("commit", 6), ("tick", 3), ("grow", 2), ("job", 4), ("read", 8))
    seen = walk(World(insert_only, left=left), at_read_steps(Rules()), CHECK, histories=60, length=25)
    assert seen.violations == {}


@pytest.mark.parametrize("rule", Rules._fields)
def test_each_part_is_needed(rule: str) -> None:
    start = World(insert_only=rule == "builds_anew")
    seen = exhaust(start, at_read_steps(Rules(**{rule: False})), CHECK, STATES)
    assert "a read differs from the replay without old rows" in seen.violations
