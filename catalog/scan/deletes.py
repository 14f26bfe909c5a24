"""Which deletes apply to which data file: the specification's rules of scan planning.

- A deletion vector applies to the one file that it names, and where there is one, position deletes are ignored.
- A position delete applies to files of its own commit and before; to one file if it names one, otherwise to those of
  its partition.
- An equality delete applies to files of earlier commits alone: of its partition, or, when its spec is unpartitioned, of
  the whole table; not to files whose statistics show that they hold none of its values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from catalog.files.data_file import PartitionValue
from catalog.iceberg.json import Json


class DeleteKind(Enum):
    """The way in which a delete file names deleted rows."""

    POSITIONS = "positions"
    VECTOR = "vector"
    EQUALITY = "equality"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A file's statistics of one column; None where they are missing."""

    values: int | None = None
    nulls: int | None = None
    lower: Any = None
    upper: Any = None

    @property
    def may_hold_null(self) -> bool:
        return self.nulls is None or self.nulls > 0

    @property
    def holds_null_alone(self) -> bool:
        return self.nulls is not None and self.nulls == self.values


UNKNOWN = Column()


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """The facts of a data file that decide about its deletes."""

    location: str
    spec_id: int
    partition: tuple[PartitionValue, ...]
    sequence_number: int
    columns: Mapping[int, Column] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DeleteFile:
    """A delete file or a deletion vector; `content` is its form for clients."""

    kind: DeleteKind
    spec_id: int
    partition: tuple[PartitionValue, ...]
    sequence_number: int
    everywhere: bool = False
    """For an equality delete: whether its spec is unpartitioned."""
    data_file: str | None = None
    """The one file that it deletes from; None if it may delete from several."""
    columns: Mapping[int, Column] = field(default_factory=dict)
    """For equality deletes: the compared columns."""
    content: Json = field(default_factory=dict)


PartitionKey = tuple[int, Hashable]
"""A partition: spec id and values."""


def partition_key(spec_id: int, partition: Sequence[PartitionValue]) -> PartitionKey:
    """A partition as a key, in which NaN equals NaN."""
    return spec_id, tuple("NaN" if value != value else value for value in partition)  # noqa: PLR0124 (NaN alone differs)


class _BySequence:
    """Deletes in the order of their commits."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._deletes: list[DeleteFile] = []

    def extend(self, deletes: Sequence[DeleteFile]) -> None:
        self._deletes = sorted([*self._deletes, *deletes], key=lambda delete: delete.sequence_number)
        self._numbers = [delete.sequence_number for delete in self._deletes]

    def since(self, sequence_number: int) -> Sequence[DeleteFile]:
        """The deletes of this commit and later ones."""
        return self._deletes[bisect_left(self._numbers, sequence_number) :]


class DeleteIndex:
    """All deletes of a snapshot, looked up by data file."""

    def __init__(self, deletes: Iterable[DeleteFile]) -> None:
        groups: dict[tuple[DeleteKind, Hashable], list[DeleteFile]] = defaultdict(list)
        self.size = 0
        equality_ids: set[int] = set()
        for delete in deletes:
            groups[delete.kind, _choose_target(delete)].append(delete)
            equality_ids.update(delete.columns)
            self.size += 1
        self.equality_ids = frozenset(equality_ids)
        """Columns whose statistics in data files decide which equality deletes apply."""
        self._groups: dict[tuple[DeleteKind, Hashable], _BySequence] = defaultdict(_BySequence)
        for key, group in groups.items():
            self._groups[key].extend(group)

    def of(self, file: DataFile) -> list[DeleteFile]:
        """The deletes that a reader of this file must apply."""
        if not self.size:
            return []
        partition, since = partition_key(file.spec_id, file.partition), file.sequence_number
        applicable = [
            delete
            for target in (None, partition)
            for delete in self._since(DeleteKind.EQUALITY, target, since + 1)
            if _may_hold(file, delete)
        ]
        vectors = self._since(DeleteKind.VECTOR, file.location, since)
        if vectors:
            return [*applicable, *vectors]
        for target in (partition, file.location):
            applicable += self._since(DeleteKind.POSITIONS, target, since)
        return applicable

    def _since(self, kind: DeleteKind, target: Hashable, sequence_number: int) -> Sequence[DeleteFile]:
        group = self._groups.get((kind, target))
        return () if group is None else group.since(sequence_number)


def _choose_target(delete: DeleteFile) -> Hashable:
    if delete.everywhere:
        return None
    return partition_key(delete.spec_id, delete.partition) if delete.data_file is None else delete.data_file


def _may_hold(file: DataFile, delete: DeleteFile) -> bool:
    """Whether the file may hold a row with values of the equality delete."""
    return all(_may_overlap(file.columns.get(field_id, UNKNOWN), column) for field_id, column in delete.columns.items())


def _may_overlap(data: Column, deleted: Column) -> bool:
    if data.may_hold_null and deleted.may_hold_null:
        return True
    if (data.holds_null_alone and not deleted.may_hold_null) or (deleted.holds_null_alone and not data.may_hold_null):
        return False
    if None in (data.lower, data.upper, deleted.lower, deleted.upper):
        return True
    # In this form NaN, which has no order, keeps the delete.
    return not (data.lower > deleted.upper or deleted.lower > data.upper)
