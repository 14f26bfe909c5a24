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
    """How a delete file says what is deleted."""

    POSITIONS = "positions"
    VECTOR = "vector"
    EQUALITY = "equality"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What a file's statistics say of one column; None where they do not."""

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
    """A data file, seen by the deletes."""

    location: str
    spec_id: int
    partition: tuple[PartitionValue, ...]
    sequence_number: int
    columns: Mapping[int, Column] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DeleteFile:
    """A delete file or a deletion vector; `content` is how it is told to a client."""

    kind: DeleteKind
    spec_id: int
    partition: tuple[PartitionValue, ...]
    sequence_number: int
    everywhere: bool = False
    """Of an equality delete: its spec is unpartitioned."""
    data_file: str | None = None
    """The one file that it deletes from, if it is for one."""
    columns: Mapping[int, Column] = field(default_factory=dict)
    """For equality deletes, the columns that are compared."""
    content: Json = field(default_factory=dict)


PartitionKey = tuple[int, Hashable]
"""A partition: spec and values."""


def partition_key(spec_id: int, partition: Sequence[PartitionValue]) -> PartitionKey:
    """A partition as a key: NaN is in one partition with itself."""
    return spec_id, tuple("NaN" if value != value else value for value in partition)  # noqa: PLR0124 (NaN alone differs)


class _BySequence:
    """Deletes in the order of their commits."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._deletes: list[DeleteFile] = []

    def extend(self, deletes: Sequence[DeleteFile]) -> None:
        self._deletes = sorted([*self._deletes, *deletes], key=lambda one: one.sequence_number)
        self._numbers = [one.sequence_number for one in self._deletes]

    def since(self, sequence_number: int) -> Sequence[DeleteFile]:
        """Those of this commit and later."""
        return self._deletes[bisect_left(self._numbers, sequence_number) :]


class DeleteIndex:
    """All deletes of a snapshot, found by data file."""

    def __init__(self, deletes: Iterable[DeleteFile]) -> None:
        groups: dict[tuple[DeleteKind, Hashable], list[DeleteFile]] = defaultdict(list)
        self.size = 0
        equality_ids: set[int] = set()
        for one in deletes:
            groups[one.kind, _target(one)].append(one)
            equality_ids.update(one.columns)
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
        place, since = partition_key(file.spec_id, file.partition), file.sequence_number
        found = [
            one
            for target in (None, place)
            for one in self._since(DeleteKind.EQUALITY, target, since + 1)
            if _may_hold(file, one)
        ]
        vectors = self._since(DeleteKind.VECTOR, file.location, since)
        if vectors:
            return [*found, *vectors]
        for target in (place, file.location):
            found += self._since(DeleteKind.POSITIONS, target, since)
        return found

    def _since(self, kind: DeleteKind, target: Hashable, sequence_number: int) -> Sequence[DeleteFile]:
        group = self._groups.get((kind, target))
        return () if group is None else group.since(sequence_number)


def _target(delete: DeleteFile) -> Hashable:
    if delete.everywhere:
        return None
    return partition_key(delete.spec_id, delete.partition) if delete.data_file is None else delete.data_file


def _may_hold(file: DataFile, delete: DeleteFile) -> bool:
    """Whether the file may hold a row with values that the equality delete lists."""
    return all(_overlap(file.columns.get(field_id, UNKNOWN), column) for field_id, column in delete.columns.items())


def _overlap(data: Column, deleted: Column) -> bool:
    if data.may_hold_null and deleted.may_hold_null:
        return True
    if (data.holds_null_alone and not deleted.may_hold_null) or (deleted.holds_null_alone and not data.may_hold_null):
        return False
    if None in (data.lower, data.upper, deleted.lower, deleted.upper):
        return True
    # Written so that NaN, which is in no order, keeps the delete.
    return not (data.lower > deleted.upper or deleted.lower > data.upper)
