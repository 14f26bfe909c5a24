"""The rules of docs/protocols.md#images hold in every explored world; without one of them a world breaks."""

from __future__ import annotations

import pytest

from tests.models.explore import exhaust, walk
from tests.models.image_scopes import EVERYTHING, SCOPES
from tests.models.image_steps import ImageModel, Scope
from tests.models.images import Rules, check

STATES = 2_000
DIFFER = "the merged rows differ from the replay"
LOST = "base has lost a file"
NEEDED = [
    ("compares_all_rows", "compaction", "the image differs from the replay"),
    ("names_the_pair", "rows appended to base", "the image differs from the replay"),
    ("metadata_last", "builds and merges", "a reader's file is gone"),
    ("grows_on_unchanged_files", "growing", "the image differs from the replay"),
    ("hides_in_packs", "growing", "the image differs from the replay"),
    ("keeps_served_images", "removal", "a reader's file is gone"),
    ("keeps_pair_of_build", "large images", "a reader's file is gone"),
    ("keeps_named_files", "layers and removal", "a reader's file is gone"),
    ("adopts_on_head", "adoption", "base has two live rows of one key"),
    ("adopts_own_files", "adoption and removal", LOST),
    ("merges_through_the_pair", "adoption", DIFFER),
    ("merges_rows", "adoption and compaction", DIFFER),
    ("moves_watermark_with_files", "adoption", DIFFER),
    ("rewrites_shown_rows", "adoption of old positions", DIFFER),
    ("removes_rewritten", "adoption", "base has two live rows of one key"),
    ("replays_commits", "adoption", LOST),
    ("keeps_files_in_doubt", "adoption", LOST),
    ("keeps_old_positions", "adoption of old positions", DIFFER),
    ("rolls_back_by_new_snapshots", "adoption and rollback", DIFFER),
    ("records_writes", "statements", "a write was applied twice"),
    ("deletes_what_was_read", "statements", "a statement deleted a row that it did not read"),
    ("shown_rows_win", "streams", DIFFER),
    ("lists_last_commits", "streams", "a checkpoint was committed twice"),
    ("knows_files", "streams and expiry", "a checkpoint was committed twice"),
]


@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES)
def test_the_rules_hold(scope: Scope) -> None:
    seen = exhaust(scope.start(), ImageModel(Rules(), scope).steps, check, STATES)
    assert seen.violations == {}
    assert seen.is_complete or seen.states >= STATES


def test_the_rules_hold_in_random_histories() -> None:
    seen = walk(EVERYTHING.start(), ImageModel(Rules(), EVERYTHING).steps, check, histories=100, length=45)
    assert seen.violations == {}
    assert seen.states > 2_000


@pytest.mark.parametrize(("rule", "name", "violation"), NEEDED)
def test_each_rule_is_needed(rule: str, name: str, violation: str) -> None:
    scope, rules = SCOPES[name], Rules(**{rule: False})
    seen = exhaust(scope.start(), ImageModel(rules, scope).steps, check, 60_000, stop_at_first=True)
    assert violation in seen.violations


def test_every_rule_has_a_history_that_breaks_without_it() -> None:
    assert set(Rules._fields) == {rule for rule, _, _ in NEEDED}
