"""The files of a layer give the rows that the rule gives: docs/protocols.md, rules 1.2 and 5.1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.protocol.tasks.image import OldRows
from firn.protocol.tasks.merge import RewriteRule
from optimizer.images.changes import KeyColumns
from optimizer.images.key_ranges import split_keys
from tests.optimizer.images.rules import a_rule
from tests.optimizer.images.stores import Change, Row, Stores, read_image

BY_ID = KeyColumns(primary_key=("id",))
EXAMPLE = [Row(1, "eu", "d1", 1, "10"), Row(2, "eu", "d1", 1, "20"), Row(3, "eu", "d1", 1, "30")]


def example(directory: Path) -> Stores:
    """The example of the design: an update that another supersedes, a delete, an insert, a moved key."""
    stores = Stores(directory)
    stores.write_base(EXAMPLE)
    stores.write_base([Row(4, "eu", "d2", 1, "40"), Row(5, "eu", "d2", 1, "50")])
    stores.write_changes(
        [Change(Row(2, "eu", "d1", 2, "21")), Change(Row(3, "eu", "d1", 2, None), "D")], sequence=8, first_row_id=100
    )
    stores.write_changes([Change(Row(6, "eu", "d2", 2, "60"), "I")], sequence=8, first_row_id=102)
    stores.write_changes(
        [Change(Row(2, "eu", "d2", 3, "22")), Change(Row(5, "eu", "d2", 3, "51"))], sequence=9, first_row_id=103
    )
    return stores


@pytest.mark.parametrize("version", [2, 3])
def test_the_example(tmp_path: Path, version: int) -> None:
    stores = example(tmp_path)
    layer = stores.build(BY_ID, 7, version=version)
    assert [(row.id, row.day, row.value) for row in read_image(stores, layer)] == [
        (1, "d1", "10"),
        (2, "d2", "22"),
        (4, "d2", "40"),
        (5, "d2", "51"),
        (6, "d2", "60"),
    ]
    assert (layer.keys, layer.hidden_rows, len(layer.packs)) == (4, 3, 1)
    assert len({hidden.location for hidden in layer.hidden}) == (2 if version == 2 else 1)
    assert {path for hidden in layer.hidden for path in hidden.data_files} == {
        task.file.file_path for task in stores.base.scan().plan_files()
    }


def test_rows_that_are_merged_already_do_not_count_in_a_compacted_file(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    stores.write_base(EXAMPLE)
    compacted = [
        Change(Row(1, "eu", "d1", 1, "merged"), row_id=1, sequence=7),
        Change(Row(2, "eu", "d1", 1, "pending"), row_id=2, sequence=9),
    ]
    stores.write_changes(compacted, sequence=9, first_row_id=None)
    assert [row.value for row in read_image(stores, stores.build(BY_ID, 7))] == ["10", "pending", "30"]


def test_a_newer_row_in_a_file_with_a_lower_number_wins(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    stores.write_changes([Change(Row(1, "eu", "d1", 1, "old"), row_id=1, sequence=1)], sequence=9, first_row_id=None)
    stores.write_changes([Change(Row(1, "eu", "d1", 1, "new"))], sequence=5, first_row_id=2)
    assert [row.value for row in read_image(stores, stores.build(BY_ID, 0))] == ["new"]


@pytest.mark.parametrize("version", [2, 3])
def test_of_an_insert_only_table_the_first_row_counts_and_deleted_rows_of_base_do_not(
    tmp_path: Path, version: int
) -> None:
    stores = Stores(tmp_path)
    stores.write_base(EXAMPLE)
    stores.delete_from_base(2)
    inserts = [Change(Row(number, "eu", "d1", 1, "new"), "I") for number in (1, 2, 4)]
    stores.write_changes([Change(Row(4, "eu", "d1", 2, None), "D"), *inserts], sequence=8, first_row_id=100)
    stores.write_changes([Change(Row(4, "eu", "d2", 3, "later"))], sequence=9, first_row_id=104)
    layer = stores.build(KeyColumns(primary_key=("id",), insert_only=True), 7, version=version)
    assert [(row.id, row.value) for row in read_image(stores, layer)] == [
        (1, "10"),
        (2, "new"),
        (3, "30"),
        (4, "new"),
    ]
    assert layer.hidden_rows == 0


@pytest.mark.parametrize("as_vector", [False, True], ids=["positions", "vector"])
@pytest.mark.parametrize("version", [2, 3])
def test_a_sequence_field_is_compared_with_rows_of_base_and_with_merged_deletes(
    tmp_path: Path, version: int, *, as_vector: bool
) -> None:
    stores = Stores(tmp_path)
    stores.write_base([Row(number, "eu", "d1", 5, "base") for number in range(1, 5)])
    stores.delete_from_base(4, as_vector=as_vector)
    merged = [Change(Row(number, "eu", "d1", 5, None), "D", row_id=number, sequence=7) for number in (5, 6)]
    stores.write_changes(merged, sequence=7, first_row_id=None)
    ats = {1: 4, 2: 5, 3: 6, 4: 1, 5: 4, 6: 5, 7: 0}
    changes = [Change(Row(number, "eu", "d1", at, "new")) for number, at in ats.items()]
    stores.write_changes(changes, sequence=9, first_row_id=100)
    columns = KeyColumns(primary_key=("id",), sequence_field="at")
    shown = [(row.id, row.value) for row in read_image(stores, stores.build(columns, 7, version=version))]
    assert shown == [(1, "base"), *((number, "new") for number in (2, 3, 4, 6, 7))]


@pytest.mark.parametrize("as_vector", [False, True], ids=["positions", "vector"])
@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_base_has_deleted_stay_hidden(tmp_path: Path, version: int, *, as_vector: bool) -> None:
    stores = Stores(tmp_path)
    stores.write_base([Row(number, "eu", "d1", 1, "base") for number in range(1, 5)])
    stores.write_base([Row(number, "eu", "d2", 1, "base") for number in range(5, 7)])
    stores.delete_from_base(1, as_vector=as_vector)
    stores.delete_from_base(5, as_vector=as_vector)
    stores.write_changes([Change(Row(2, "eu", "d1", 2, "new"))], sequence=8, first_row_id=100)
    layer = stores.build(BY_ID, 7, version=version)
    values = {row.id: row.value for row in read_image(stores, layer)}
    assert values == {2: "new", 3: "base", 4: "base", 6: "base"}
    assert len(layer.replaced_vectors) == (0 if not as_vector else 2 if version == 2 else 1)


@pytest.mark.parametrize("columns", [BY_ID, KeyColumns(primary_key=("region", "id"), sequence_field="at")])
def test_little_memory_takes_several_ranges_of_keys_and_parts_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: KeyColumns
) -> None:
    monkeypatch.setattr("optimizer.images.layer._COPIES", 1_000_000)
    stores = Stores(tmp_path)
    stores.write_base([Row(number, "eu", "d1", 1, "base") for number in range(20)])
    changed = [Change(Row(number, "eu", "d1", 2, "new"), "D" if number % 5 == 0 else "U") for number in range(10, 24)]
    stores.write_changes(changed, sequence=1, first_row_id=0)
    stores.write_changes([Change(Row(11, "eu", "d1", 3, "newer"))], sequence=2, first_row_id=50)
    with patch("optimizer.images.layer.split_keys", wraps=split_keys) as split:
        layer = stores.build(columns, 0, memory_bytes=0)
    assert split.call_args.args[2] > 10
    values = {row.id: row.value for row in read_image(stores, layer)}
    kept = dict.fromkeys(range(10), "base")
    assert values == kept | {number: "new" for number in range(11, 24) if number % 5} | {11: "newer"}
    assert (layer.keys, layer.hidden_rows) == (14, 10)


def test_a_row_without_an_id_is_refused(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    stores.write_changes([Change(Row(1, "eu", "d1", 1, "old"))], sequence=9, first_row_id=None)
    with pytest.raises(ValueError, match="rows without an id"):
        stores.build(BY_ID, 0)


class Step(NamedTuple):
    id: int
    region: str
    day: str
    at: int
    op: str


steps = st.builds(
    Step,
    id=st.integers(1, 4),
    region=st.sampled_from("ab"),
    day=st.sampled_from(["d1", "d2"]),
    at=st.integers(0, 3),
    op=st.sampled_from("IUUD"),
)
base_rows = st.lists(st.builds(Row, st.integers(1, 4), st.sampled_from("ab"), st.sampled_from(["d1", "d2"]),
                               st.integers(0, 3), st.just("base")), max_size=8)  # fmt: skip


def replay(base: Sequence[Row], commits: Sequence[Sequence[Step]], columns: KeyColumns) -> list[Row]:
    """The rule, change by change: the later one wins; with a sequence field only against a value not above its own."""

    def key(row: Row | Step) -> tuple[object, ...]:
        return tuple(getattr(row, name) for name in columns.primary_key)

    rows = {key(row): row for row in base}
    newest: dict[tuple[object, ...], tuple[tuple[int, int], Step, str]] = {}
    number = 0
    for commit in commits:
        for step in commit:
            order = (step.at if columns.sequence_field else 0, number)
            if key(step) not in newest or newest[key(step)][0] <= order:
                newest[key(step)] = (order, step, str(number))
            number += 1
    for name, (_, step, value) in newest.items():
        held = rows.get(name)
        if columns.sequence_field and held is not None and held.at is not None and step.at < held.at:
            continue
        rows.pop(name, None)
        if step.op != "D":
            rows[name] = Row(step.id, step.region, step.day, step.at, value)
    return sorted(rows.values(), key=repr)


@settings(max_examples=40, deadline=None)
@given(
    base=base_rows,
    commits=st.lists(st.lists(steps, min_size=1, max_size=5), min_size=1, max_size=4),
    columns=st.sampled_from(
        [BY_ID, KeyColumns(primary_key=("id", "region")), KeyColumns(primary_key=("id",), sequence_field="at")]
    ),
    version=st.sampled_from([2, 3]),
    memory_bytes=st.sampled_from([None, 0]),
    rule=st.sampled_from(
        [None, a_rule(large_share=0.3), a_rule(small_bytes=10**6), a_rule(large_share=0, most_bytes=2_500)]
    ),
    deletes=st.sampled_from([None, "positions", "vectors"]),
)
@patch("optimizer.images.layer._COPIES", 100_000)  # with a limit of memory, there are several ranges of keys
def test_any_history(
    base: list[Row],
    commits: list[list[Step]],
    columns: KeyColumns,
    version: int,
    memory_bytes: int | None,
    rule: RewriteRule | None,
    *,
    deletes: str | None,
) -> None:
    if version == 2 and deletes == "vectors":
        rule = None  # files are written again only by merges, and a base in v2 has no vectors
    unique = list({tuple(getattr(row, name) for name in columns.primary_key): row for row in base}.values())
    with TemporaryDirectory() as directory:
        stores = Stores(Path(directory))
        for row in unique:
            stores.write_base([row])
        number = 0
        for sequence, commit in enumerate(commits, 1):
            for step in commit:
                row = Row(step.id, step.region, step.day, step.at, str(number))
                stores.write_changes([Change(row, step.op)], sequence=sequence, first_row_id=number)
                number += 1
        if deletes and unique:
            stores.delete_from_base(unique[0].id, as_vector=deletes == "vectors")
            unique = [row for row in unique if row.id != unique[0].id]
        layer = stores.build(columns, 0, version=version, memory_bytes=memory_bytes, rule=rule)
        assert read_image(stores, layer) == replay(unique, commits, columns)


OLD = OldRows(field_id=4, value=5)
"""Rows whose column `at`, a number here, is below 5."""
BY_AT = KeyColumns(primary_key=("id",), age="at")


def age(*ats: int | None) -> list[Row]:
    return [Row(number, "eu", "d1", at, "base") for number, at in enumerate(ats, start=10 * len(ats))]


@pytest.mark.parametrize("version", [2, 3])
def test_old_rows_are_hidden_and_files_without_others_are_left_out(tmp_path: Path, version: int) -> None:
    stores = Stores(tmp_path)
    for ats in ((4,), (5, 6), (4, 5, None), (3, None, 4, None)):
        stores.write_base(age(*ats))
    stores.delete_from_base(32)
    layer = stores.build(BY_AT, 0, version=version, batch_rows=1, hides=OLD)
    assert [row.id for row in read_image(stores, layer)] == [20, 21, 31, 41, 43]
    assert (len(layer.removed_files), layer.hidden_rows) == (1, 3)


def test_pending_rows_that_are_old_are_in_no_pack(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    stores.write_base(age(4))
    stores.write_base(age(5, 6))
    stores.write_changes([Change(Row(21, "eu", "d1", 1, "old"))], sequence=8, first_row_id=0)
    newer = [Change(Row(10, "eu", "d1", 9, "back")), Change(Row(40, "eu", "d1", None, "no time"))]
    stores.write_changes(newer, sequence=9, first_row_id=1)
    layer = stores.build(BY_AT, 0, hides=OLD)
    rows = [(10, "back"), (20, "base"), (40, "no time")]
    assert [(row.id, row.value) for row in read_image(stores, layer)] == rows


@pytest.mark.parametrize("version", [2, 3])
def test_a_file_whose_bounds_are_not_known_is_opened(tmp_path: Path, version: int) -> None:
    stores = Stores(tmp_path)
    with stores.base.transaction() as transaction:
        transaction.set_properties({"write.metadata.metrics.mode.column.at": "none"})
    stores.write_base(age(4, 5, None))
    layer = stores.build(BY_AT, 0, version=version, hides=OLD)
    assert [row.at for row in read_image(stores, layer)] == [5, None]


def test_a_layer_on_an_image_that_hides_old_rows_does_not_look_for_them_again(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    stores.write_base(age(4, 5))
    stores.write_changes([Change(Row(1, "eu", "d1", 1, "old"))], sequence=8, first_row_id=0)
    layer = stores.build(BY_AT, 0, hides=OLD.model_copy(update={"of_base": False}))
    assert (layer.hidden, layer.removed_files, layer.packs) == ([], [], [])
