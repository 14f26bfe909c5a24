"""The rules of docs/protocols.md#hive-sync-and-publish hold in every explored world; without one of them one breaks."""

from __future__ import annotations

import pytest

from tests.models.explore import exhaust, walk
from tests.models.hive import Rules, World, budget
from tests.models.hive_steps import OPENINGS, PUBLISH, check_with, find_damage, follow, hive_steps, start

NEEDED = [
    ("waits_until_settled", "fresh", "rows are lost"),
    ("keeps_baseline", "fresh", "removed rows come back"),
    ("records_sources", "fresh", "removed rows come back"),
    ("finishes_publish_first", "fresh", "rows are lost"),
    ("watches_superseded", "published while an add is open", "rows are lost"),
    ("repairs_location", "published twice", "rows are lost"),
]


@pytest.mark.parametrize("opening", OPENINGS)
def test_the_rules_hold(opening: str) -> None:
    seen = exhaust(start(opening), hive_steps(Rules()), check_with(Rules()), 4_000)
    assert seen.violations == {}
    assert seen.states >= 4_000


def test_the_rules_hold_in_random_histories() -> None:
    left = budget(hive=4, late=2, firn=3, tick=3, sync=4, merge=2, publish=3, clean=4)
    seen = walk(World(left=left), hive_steps(Rules()), check_with(Rules()), histories=150, length=40)
    assert seen.violations == {}
    assert seen.states > 2_000


@pytest.mark.parametrize(("rule", "opening", "violation"), NEEDED)
def test_each_rule_is_needed(rule: str, opening: str, violation: str) -> None:
    rules = Rules()._replace(**{rule: False})
    seen = exhaust(start(opening), hive_steps(rules), check_with(rules), 6_000)
    assert violation in seen.violations


def test_without_a_lock_a_relocation_between_check_and_repointing_is_lost() -> None:
    """Rule 3.8."""
    rules = Rules(locks=False)
    checked = ("publish writes a new directory", "publish commits base", "publish checks HMS")
    begun = follow(World(left=budget()), rules, "Firn upserts f1", *checked)
    seen = exhaust(begun, hive_steps(rules), check_with(rules), 500)
    assert "rows are lost" in seen.violations


def test_every_rule_has_a_history_that_breaks_without_it() -> None:
    assert {rule for rule, _, _ in NEEDED} | {"locks"} == set(Rules._fields)


def test_what_hive_destroys_before_the_next_sync() -> None:
    """Rule 3.9: the head breaks while it stands on Hive's files, older snapshots after a merge."""
    overwrites, drops = "Hive overwrites", "Hive drops the partition with its files"
    removes = "a Hive-side program removes a"
    assert find_damage() == {overwrites: (2, 0), removes: (1, 0), drops: (2, 0)}
    assert find_damage("Firn upserts f1", "merge") == {overwrites: (0, 2), removes: (0, 1), drops: (0, 2)}
    assert find_damage("Firn upserts f1", *PUBLISH) == {overwrites: (1, 0), drops: (1, 0)}
    merged_again = ("Firn upserts f1", *PUBLISH, "Firn upserts f2", "merge")
    assert find_damage(*merged_again) == {overwrites: (0, 1), drops: (0, 1)}
