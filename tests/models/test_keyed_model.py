"""The rules of docs/protocols.md#keyed-tables, hold in every explored world; without one of them a world breaks."""

from __future__ import annotations

import pytest

from tests.models.explore import exhaust, walk
from tests.models.keyed import Rules, Scope, check_with, keyed_steps
from tests.models.keyed_scopes import LONG_SCOPES, SCOPES

STATES = 2_500
NEEDED = [
    ("validates_whole_table", "direct writes", "base has two live rows of one key"),
    ("validates_whole_table", "direct writes", "the view differs from the replay"),
    ("compares_with_base", "sequence field", "the view differs from the replay"),
    ("keeps_merged_deletes", "late change after a delete", "the view differs from the replay"),
    ("rollback_fences", "two rollbacks", "an acknowledged batch is not in the table"),
    ("rollback_keeps_schema", "schema and rollback", "the view pins a snapshot of an old schema"),
]


NEEDED_RULES = {rule for rule, _, _ in NEEDED}


@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES)
def test_the_rules_hold(scope: Scope) -> None:
    rules = Rules()
    seen = exhaust(scope.start(), keyed_steps(rules, scope), check_with(rules, scope), STATES)
    assert seen.violations == {}
    assert seen.is_complete or seen.states >= STATES


@pytest.mark.parametrize("scope", LONG_SCOPES.values(), ids=LONG_SCOPES)
def test_the_rules_hold_in_random_histories(scope: Scope) -> None:
    rules = Rules()
    seen = walk(scope.start(), keyed_steps(rules, scope), check_with(rules, scope), histories=60, length=40)
    assert seen.violations == {}
    assert seen.states > 1_000


@pytest.mark.parametrize(("rule", "name", "violation"), NEEDED)
def test_each_rule_is_needed(rule: str, name: str, violation: str) -> None:
    scope = SCOPES[name]
    rules = Rules(**{field: field != rule for field in NEEDED_RULES})
    seen = exhaust(scope.start(), keyed_steps(rules, scope), check_with(rules, scope), 8_000)
    assert violation in seen.violations


def test_every_rule_has_a_history_that_breaks_without_it() -> None:
    assert set(Rules._fields) == NEEDED_RULES


@pytest.mark.parametrize(
    ("pin", "violations"), [("base first", {"a reader mixes two states"}), ("change first", set[str]())]
)
def test_a_reader_that_resolves_base_first_mixes_two_states(pin: str, violations: set[str]) -> None:
    rules, scope = Rules(), SCOPES["pins"]._replace(pin=pin)
    seen = exhaust(scope.start(), keyed_steps(rules, scope), check_with(rules, scope), 5_000)
    assert seen.is_complete
    assert seen.violations.keys() == violations
