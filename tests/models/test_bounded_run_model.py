"""Rule 8.14 of docs/protocols.md holds in every world; without one of its clauses a world breaks."""

from __future__ import annotations

import pytest

from tests.models.bounded_runs import CHECK, Rules, World, bounded_steps
from tests.models.explore import exhaust

NEEDED = {
    "one_time": "the table shows inputs of different times",
    "pins_while_choosing": "a state that a run reads has expired",
    "never_back": "the table goes back",
    "continues": "commits are left, and no run is to come",
}


def test_the_rule_holds() -> None:
    seen = exhaust(World(), bounded_steps(Rules()), CHECK, 100_000)
    assert seen.violations == {}
    assert seen.is_complete
    assert seen.states > 500


@pytest.mark.parametrize("rule", Rules._fields)
def test_each_clause_is_needed(rule: str) -> None:
    seen = exhaust(World(), bounded_steps(Rules()._replace(**{rule: False})), CHECK, 100_000)
    assert NEEDED[rule] in seen.violations
