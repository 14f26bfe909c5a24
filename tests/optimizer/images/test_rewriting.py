"""Files of base that a layer writes again: which, with which rows, under which ids (docs/protocols.md, rule 5.6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from firn.protocol.tasks.image import Layer
from optimizer.images.changes import KeyColumns
from tests.optimizer.images.rules import a_rule
from tests.optimizer.images.stores import Change, Row, Stores, read_image

BY_ID = KeyColumns(primary_key=("id",))


def a_row(number: int, day: str = "d1", value: str = "base") -> Row:
    return Row(number, "eu", day, 1, value)


def read_rewritten(layer: Layer) -> list[dict[str, Any]]:
    paths = [pack.location.removeprefix("file://") for pack in layer.rewritten]
    return [row for path in paths for row in pq.read_table(path, partitioning=None).to_pylist()]


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    """Two files of ten rows on two days, and changes of four rows on the first."""
    stores = Stores(tmp_path)
    stores.write_base([a_row(number) for number in range(10)])
    stores.write_base([a_row(number, "d2") for number in range(10, 20)])
    changed = [Change(a_row(number, value="new")) for number in (1, 3, 30)] + [Change(a_row(5), "D")]
    stores.write_changes(changed, sequence=8, first_row_id=100)
    return stores


def test_a_partition_with_many_changes_is_written_again_whole(stores: Stores) -> None:
    layer = stores.build(BY_ID, 7, rule=a_rule(large_share=0.6))
    (old,) = layer.removed_files
    assert (layer.hidden, layer.packs, layer.hidden_rows) == ([], [], 3)
    assert [(pack.rows, pack.like) for pack in layer.rewritten] == [(10, old)]
    assert [row["id"] for row in read_rewritten(layer)] == [0, 2, 4, 6, 7, 8, 9, 1, 3, 30]
    values = {row.id: row.value for row in read_image(stores, layer)}
    assert values == dict.fromkeys([n for n in range(20) if n != 5], "base") | dict.fromkeys((1, 3, 30), "new")


def test_a_partition_with_few_changes_hides_rows(stores: Stores) -> None:
    layer = stores.build(BY_ID, 7, rule=a_rule(large_share=0.61))
    assert (layer.rewritten, layer.removed_files, len(layer.packs), len(layer.hidden)) == ([], [], 1, 1)


def test_small_files_take_the_changes_of_their_partition(stores: Stores) -> None:
    layer = stores.build(BY_ID, 7, rule=a_rule(small_bytes=10**6))
    assert (len(layer.removed_files), len(layer.rewritten), layer.packs, layer.hidden) == (1, 1, [], [])


def test_a_rewrite_above_the_limit_is_left_out(stores: Stores) -> None:
    layer = stores.build(BY_ID, 7, rule=a_rule(large_share=0, most_bytes=10))
    assert (layer.rewritten, len(layer.packs)) == ([], 1)


def test_rows_keep_their_ids_and_new_ones_have_none(stores: Stores) -> None:
    layer = stores.build(BY_ID, 7, version=3, rule=a_rule(large_share=0.5))
    rows = {row["id"]: (row["_row_id"], row["_last_updated_sequence_number"]) for row in read_rewritten(layer)}
    first = min(number for number, _ in rows.values() if number is not None)
    assert first in (1000, 1010)  # the first id of the file
    old = {key: (first + key, 5) for key in (0, 2, 4, 6, 7, 8, 9)}
    assert rows == old | dict.fromkeys((1, 3, 30), (None, None))


def test_deletes_of_rewritten_files_alone_go_with_them(stores: Stores) -> None:
    stores.delete_from_base(9)
    (deletes,) = stores.deletes.values()
    layer = stores.build(BY_ID, 7, rule=a_rule(large_share=0.5))
    assert layer.removed_deletes == [deletes.file_path]
    assert 9 not in {row["id"] for row in read_rewritten(layer)}


def test_a_partition_that_loses_all_rows_gets_no_file(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    stores.write_base([a_row(1)])
    stores.write_changes([Change(a_row(1), "D")], sequence=8, first_row_id=100)
    layer = stores.build(BY_ID, 7, rule=a_rule(large_share=0.5))
    assert (len(layer.removed_files), layer.rewritten, read_image(stores, layer)) == (1, [], [])


def test_files_have_about_the_target_size(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optimizer.images.rewriting.PART_ROWS", 2)
    monkeypatch.setattr("optimizer.images.rewriting.ROW_GROUP_BYTES", 1)
    small = a_rule(large_share=0.5).model_copy(update={"target_bytes": 1})
    layer = stores.build(BY_ID, 7, rule=small)
    assert len(layer.rewritten) == 2  # PyIceberg wrote the old file, which is read as one part
    assert sum(pack.rows for pack in layer.rewritten) == len(read_rewritten(layer)) == 10
    assert len(read_image(stores, layer)) == 20
