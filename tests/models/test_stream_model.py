"""The rules of docs/protocols.md#streams hold in every explored world; without one of them a world breaks."""

from __future__ import annotations

import pytest

from tests.models.explore import exhaust, find_stuck, walk
from tests.models.streams import (
    CHECK,
    SAVES_WORK,
    Copy,
    Rules,
    World,
    budget,
    is_done,
    stream_steps,
    works_twice,
)

STATES = 8_000
START = World(left=budget())
NEEDED = [
    ("compares_position", "a record was lost"),
    ("replays_first", "the newest copy was refused"),
    ("fences_epoch", "the newest copy was refused"),
    ("registers_first", "the newest copy was refused"),
    ("names_positions", "a writer has gone on past records that the table does not have"),
    ("ends_at_stable_offset", "a record was lost"),
    ("stops_at_gap", "a record was lost"),
    ("stamps_position", "a read of table and topic shows a record twice"),
    ("rolls_position_back", "a record was lost"),
    ("lease_registers", "the newest copy was refused"),
    ("pause_fences", "a paused stream has committed"),
    ("checks_rebased", "a record is in the table twice"),
    ("numbers_rebased", "two changes have one row id"),
    ("orders_changes", "an older change of a key wins"),
    ("keeps_last", "an older change of a key wins"),
    ("reset_fences", "a writer has gone on past records that the table does not have"),
    ("reset_compares", "a read of table and topic shows a record twice"),
]
OF_LEASES = {"lease_registers", "pause_fences"}
OF_RESETS = {"reset_fences", "reset_compares"}
LEASED = {"take": 4, "lapse": 2, "pause": 1}
RESET = {"reset": 3, "rollback": 0}


def test_the_rules_hold() -> None:
    seen = exhaust(START, stream_steps(Rules()), CHECK, STATES)
    assert seen.violations == {}
    assert seen.states >= STATES


def test_the_rules_hold_with_three_copies_in_random_histories() -> None:
    some = {"produce": 6, "register": 6, "lose": 4, "crash": 3, "other": 3, "rollback": 2, "expire": 3, "overtake": 3}
    left = budget(**some, take=6, lapse=3, pause=2)
    start = World(copies=(Copy(),) * 3, left=left)
    seen = walk(start, stream_steps(Rules()), CHECK, histories=500, length=60)
    assert seen.violations == {}
    assert seen.states > 2_000


@pytest.mark.parametrize(("rule", "violation"), NEEDED)
def test_each_rule_is_needed(rule: str, violation: str) -> None:
    seen = walk(
        World(left=budget(**{"produce": 4, "register": 4, "lose": 2, "forget": 2, **_events_of(rule)})),
        stream_steps(Rules()._replace(**{rule: False})),
        CHECK,
        histories=600,
        length=30,
    )
    assert violation in seen.violations


def _events_of(rule: str) -> dict[str, int]:
    return {**(LEASED if rule in OF_LEASES else {}), **(RESET if rule in OF_RESETS else {})}


def test_the_rules_hold_with_resets() -> None:
    start = World(left=budget(produce=2, register=2, lose=1, other=0, forget=0, **RESET))
    seen = exhaust(start, stream_steps(Rules()), CHECK, STATES)
    assert seen.violations == {}
    assert seen.states >= STATES
    more = budget(produce=6, register=6, lose=4, crash=3, other=3, expire=2, overtake=3, **RESET)
    seen = walk(World(left=more), stream_steps(Rules()), CHECK, histories=500, length=60)
    assert seen.violations == {}


def test_every_rule_has_a_history_that_breaks_without_it() -> None:
    assert {rule for rule, _ in NEEDED} | SAVES_WORK == set(Rules._fields)


def test_the_rules_hold_with_leases() -> None:
    start = World(left=budget(produce=2, register=1, lose=1, crash=1, other=0, rollback=0, expire=0, **LEASED))
    seen = exhaust(start, stream_steps(Rules()), CHECK, STATES)
    assert seen.violations == {}
    assert seen.states >= STATES


@pytest.mark.parametrize("rule", sorted(SAVES_WORK))
def test_without_this_rule_of_leases_only_work_is_done_twice(rule: str) -> None:
    start = World(left=budget(produce=4, register=2, lose=2, **LEASED))
    at_work = list[bool]()

    def check(world: World) -> str | None:
        at_work.append(works_twice(world))
        return CHECK(world)

    seen = walk(start, stream_steps(Rules()._replace(**{rule: False})), check, histories=400, length=30)
    assert seen.violations == {}
    assert any(at_work)


def test_every_record_can_still_reach_the_table_through_leases() -> None:
    quiet = {"other": 0, "rollback": 0, "expire": 0, "overtake": 0}
    calm = World(left=budget(produce=1, register=0, crash=1, lose=1, take=4, lapse=1, **quiet))
    is_complete, stuck = find_stuck(calm, stream_steps(Rules()), is_done, 80_000)
    assert is_complete
    assert stuck is None


def test_every_record_can_still_reach_the_table() -> None:
    calm = World(left=budget(produce=2, register=3, crash=0, lose=1, other=0, rollback=0, expire=0, overtake=0))
    is_complete, stuck = find_stuck(calm, stream_steps(Rules()), is_done, 80_000)
    assert is_complete
    assert stuck is None
