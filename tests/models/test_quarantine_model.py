"""The rules of quarantines (docs/protocols.md#streams) hold in every explored world; without one of them one breaks."""

from __future__ import annotations

import pytest

from tests.models.explore import exhaust, find_stuck, walk
from tests.models.quarantine import CHECK, Rules, World, budget, is_done, quarantine_steps

STATES = 20_000
DRAINS = budget()
RETRIES = budget(register=1, crash=1, lose=0, retry=2)
NEEDED = [
    ("quarantines_first", "a record was lost", DRAINS),
    ("leaves_out_quarantined", "a record is in the quarantine twice", DRAINS),
    ("compares_records", "a record was lost", DRAINS),
    ("compares_position", "a record is in the quarantine twice", DRAINS),
    ("opens_with_epoch", "a record is in the table and in the quarantine", budget(crash=0, lose=0)),
    ("looks_after_opening", "a record is in the quarantine twice", DRAINS),
    ("retries_below_position", "a record is in the table twice", budget(crash=0, lose=0, retry=1)),
    ("names_records", "a record is in the table twice", RETRIES),
    ("retry_fences", "a record is in the table twice", RETRIES),
    ("moves_on", "a record was lost", budget(register=1, crash=0, lose=0, retry=1, rollback=1)),
    ("moves_on", "a record is in the table twice", budget(register=1, crash=0, lose=0, retry=2, rollback=1)),
    ("drop_names_snapshot", "a user has dropped an unseen record", budget(register=1, crash=0, lose=0, drop=1)),
]


@pytest.mark.parametrize("left", [DRAINS, RETRIES, budget(register=1, retry=1, drop=1)])
def test_the_rules_hold(left: tuple[tuple[str, int], ...]) -> None:
    seen = exhaust(World(left=left), quarantine_steps(Rules()), CHECK, STATES)
    assert seen.violations == {}
    assert seen.is_complete or seen.states >= STATES


def test_the_rules_hold_in_random_histories() -> None:
    start = World(left=budget(register=4, crash=3, lose=3, retry=3, drop=2))
    seen = walk(start, quarantine_steps(Rules()), CHECK, histories=800, length=50)
    assert seen.violations == {}
    assert seen.states > 10_000


@pytest.mark.parametrize(("rule", "violation", "left"), NEEDED)
def test_each_rule_is_needed(rule: str, violation: str, left: tuple[tuple[str, int], ...]) -> None:
    steps = quarantine_steps(Rules()._replace(**{rule: False}))

    def check_one(world: World) -> str | None:
        return violation if CHECK(world) == violation else None

    seen = exhaust(World(left=left), steps, check_one, 150_000, stop_at_first=True)
    assert violation in seen.violations


def test_every_rule_has_a_history_that_breaks_without_it() -> None:
    assert {rule for rule, _, _ in NEEDED} == set(Rules._fields)


def test_every_record_can_still_reach_the_table_or_the_quarantine() -> None:
    calm = World(left=budget(register=3, crash=0, lose=0, alter=0))
    is_complete, stuck = find_stuck(calm, quarantine_steps(Rules()), is_done, 80_000)
    assert is_complete
    assert stuck is None
