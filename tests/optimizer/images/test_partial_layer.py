"""Layers over changes that set some columns only give the rows of a plain dict: docs/protocols.md, rule 1.7."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from optimizer.images.changes import KeyColumns
from tests.optimizer.images.partial_stores import COLUMNS, KEY, PartialStores, read_pack_days, read_rows
from tests.partial_model import PartialChange, PartialModel, make_random_change, name_properties

BY_KEY = KeyColumns(primary_key=KEY)
WRITERS = [frozenset({"v"}), frozenset({"tags"}), frozenset({"n", "v"}), frozenset({"v", "tags"})]


def make_row(rng: random.Random) -> dict[str, Any]:
    return {
        "id": rng.randrange(3),
        "day": rng.choice(["d1", "d2"]),
        "v": rng.choice([None, "p", "q"]),
        "tags": rng.choice([None, [], ["a"], ["b", None]]),
        "n": rng.choice([None, rng.randrange(5), rng.randrange(100)]),
    }


NO_RULES: dict[str, str] = {}
GROUPS: list[dict[str, str]] = [{"n": "n", "v": "n"}, {"v": "v", "tags": "v"}, {"v": "n", "tags": "n", "n": "n"}]
"""The sequence field of each column in a group."""
RULES = [
    {"n": "sum", "v": "first", "tags": "last-not-null"},
    {"n": "max", "v": "last-not-null", "tags": "first"},
    {"n": "min"},
]


@pytest.mark.parametrize(
    ("seed", "rules", "groups"),
    [
        *((seed, NO_RULES, NO_RULES) for seed in range(12)),
        *((12 + seed, RULES[seed % len(RULES)], NO_RULES) for seed in range(12)),
        *((24 + seed, NO_RULES, GROUPS[seed % len(GROUPS)]) for seed in range(12)),
        (36, {"tags": "first"}, GROUPS[0]),
    ],
)
def test_a_layer_is_the_replay_of_all_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, rules: dict[str, str], groups: dict[str, str]
) -> None:
    """Base has rows that share a key and rows that were deleted; commits are compacted; files lack `_set`."""
    rng, stores = random.Random(seed), PartialStores(tmp_path, name_properties(rules, groups))
    rows = [make_row(rng) for _ in range(rng.randrange(6))]
    half = len(rows) // 2
    for part in (rows[:half], rows[half:]):
        if part:
            stores.write_base_rows(part)
    if any(row["id"] == 1 for row in rows) and rng.random() < 0.5:
        stores.delete_from_base(1)
        rows = [row for row in rows if row["id"] != 1]
    model, compacted, row_id = PartialModel(KEY, COLUMNS, rows, rules, groups), [], 0
    for sequence in range(1, rng.randrange(2, 6)):
        commit = []
        has_set = rng.random() < 0.8
        for _ in range(rng.randrange(1, 6)):
            change = make_random_change(rng, make_row(rng), KEY, WRITERS)
            change = change if has_set else PartialChange(change.op, change.row)
            commit.append((row_id, sequence, change))
            row_id += 1
            model.apply(change)
        if has_set and rng.random() < 0.4:
            compacted += commit
        else:
            stores.write_commit(commit, number=sequence, has_set=has_set)
    if compacted:
        stores.write_commit(compacted, number=9)
    if (memory := rng.choice([None, 0])) is not None:  # then each range of keys holds few of them
        monkeypatch.setattr("optimizer.images.layer._COPIES", 1_000_000)
    layer = stores.build(BY_KEY, 0, memory_bytes=memory)
    assert read_rows(stores, layer) == model.list_rows()
    assert all(len(days) == 1 for days in read_pack_days(layer))


def test_changes_that_base_has_already_do_not_count(tmp_path: Path) -> None:
    stores = PartialStores(tmp_path)
    stores.write_base_rows([{"id": 1, "day": "d1", "v": "base", "tags": None, "n": 1}])
    merged = PartialChange("U", {"id": 1, "day": "d1", "v": "merged"}, frozenset({"v"}))
    pending = PartialChange("U", {"id": 1, "day": "d1", "n": 2}, frozenset({"n"}))
    stores.write_commit([(0, 3, merged), (1, 5, pending)], number=5)
    assert read_rows(stores, stores.build(BY_KEY, 4)) == [(1, "d1", "base", None, 2)]


@pytest.mark.parametrize("version", [2, 3])
def test_deleted_rows_of_base_are_no_source_of_values(tmp_path: Path, version: int) -> None:
    stores = PartialStores(tmp_path)
    stores.write_base_rows([{"id": number, "day": "d1", "v": "base", "tags": ["x"], "n": number} for number in (1, 2)])
    stores.delete_from_base(1)
    rows = [{"id": number, "day": "d1", "v": "new"} for number in (1, 2)]
    stores.write_commit([(at, 1, PartialChange("U", row, frozenset({"v"}))) for at, row in enumerate(rows)], number=1)
    layer = stores.build(BY_KEY, 0, version=version)
    assert layer.keys == 2
    assert read_rows(stores, layer) == [(1, "d1", "new", None, None), (2, "d1", "new", ["x"], 2)]


def test_a_sum_that_its_column_cannot_hold_builds_no_layer(tmp_path: Path) -> None:
    stores = PartialStores(tmp_path, name_properties({"n": "sum"}, {}))
    stores.write_base_rows([{"id": 1, "day": "d1", "v": None, "tags": None, "n": 2**62}])
    change = PartialChange("U", {"id": 1, "day": "d1", "n": 2**62}, frozenset({"n"}))
    stores.write_commit([(0, 1, change)], number=1)
    with pytest.raises(ValueError, match="out of the range of int64: 9223372036854775808"):
        stores.build(BY_KEY, 0)
