"""Which deletes apply to a file, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.scan.deletes import Column, DataFile, DeleteFile, DeleteIndex, DeleteKind

DATA = DataFile(location="a", spec_id=1, partition=("x",), sequence_number=5)


def delete(kind: DeleteKind, sequence_number: int, **more: Any) -> DeleteFile:
    fields: dict[str, Any] = {"spec_id": 1, "partition": ("x",)} | more
    return DeleteFile(kind=kind, sequence_number=sequence_number, **fields)


def applies(delete: DeleteFile, *others: DeleteFile, data: DataFile = DATA) -> bool:
    return delete in DeleteIndex([delete, *others]).of(data)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (DeleteKind.POSITIONS, [False, True, True]),
        (DeleteKind.EQUALITY, [False, False, True]),
    ],
)
def test_deletes_apply_to_older_files_and_positions_to_those_of_their_own_commit(
    kind: DeleteKind, expected: list[bool]
) -> None:
    assert [applies(delete(kind, number)) for number in (4, 5, 6)] == expected


@pytest.mark.parametrize("kind", [DeleteKind.POSITIONS, DeleteKind.EQUALITY])
def test_deletes_stay_in_their_partition_and_spec(kind: DeleteKind) -> None:
    assert not applies(delete(kind, 9, partition=("y",)))
    assert not applies(delete(kind, 9, spec_id=2))


def test_equality_deletes_of_an_unpartitioned_spec_apply_everywhere() -> None:
    assert applies(delete(DeleteKind.EQUALITY, 9, spec_id=0, partition=(), everywhere=True))


def test_partitions_of_nan_are_one_partition() -> None:
    data = DataFile(location="a", spec_id=1, partition=(float("nan"),), sequence_number=5)
    assert applies(delete(DeleteKind.POSITIONS, 9, partition=(float("nan"),)), data=data)


def test_deletes_for_one_file_apply_to_it_alone_and_a_vector_replaces_positions() -> None:
    positions, vector = delete(DeleteKind.POSITIONS, 6), delete(DeleteKind.VECTOR, 7, data_file="a")
    named, other = (delete(DeleteKind.POSITIONS, 6, data_file=path) for path in ("a", "b"))
    equality = delete(DeleteKind.EQUALITY, 6)
    assert applies(named)
    assert not applies(other)
    assert DeleteIndex([positions, named, vector, equality]).of(DATA) == [equality, vector]
    assert not applies(delete(DeleteKind.VECTOR, 7, data_file="b"))


@pytest.mark.parametrize(
    ("data", "deleted", "expected"),
    [
        (Column(), Column(), True),
        (Column(values=2, nulls=0, lower=1, upper=5), Column(values=1, nulls=0, lower=6, upper=6), False),
        (Column(values=2, nulls=0, lower=1, upper=5), Column(values=1, nulls=0, lower=5, upper=9), True),
        (Column(values=2, nulls=0, lower=7, upper=9), Column(values=1, nulls=0, lower=6, upper=6), False),
        (Column(values=2, nulls=1, lower=1, upper=5), Column(values=2, nulls=1, lower=6, upper=6), True),
        (Column(values=2, nulls=2), Column(values=1, nulls=0, lower=6, upper=6), False),
        (Column(values=2, nulls=0, lower=1, upper=5), Column(values=1, nulls=1), False),
        (Column(values=2, nulls=0, lower=1, upper=5), Column(values=1, nulls=0, lower=6), True),
        (
            Column(values=2, nulls=0, lower=1.0, upper=5.0),
            Column(values=1, nulls=0, lower=float("nan"), upper=6.0),
            True,
        ),
    ],
)
def test_equality_deletes_are_left_out_when_statistics_rule_them_out(
    data: Column,
    deleted: Column,
    expected: bool,  # noqa: FBT001 (pytest passes it by name)
) -> None:
    file = DataFile(location="a", spec_id=1, partition=("x",), sequence_number=5, columns={3: data})
    assert applies(delete(DeleteKind.EQUALITY, 9, columns={3: deleted}), data=file) is expected


def test_a_column_that_the_file_says_nothing_of_may_hold_anything() -> None:
    assert applies(delete(DeleteKind.EQUALITY, 9, columns={3: Column(values=1, nulls=0, lower=6, upper=6)}))
