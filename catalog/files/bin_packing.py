"""Bin-packing: the data files that a rewrite takes, and their groups.

This is the rule of Iceberg's BinPackRewriteFilePlanner (1.12) with the options of the rewrite job. The dry run, the
Layout page, the counts for planning and health, and all predictions use this rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from catalog.files.data_file import PartitionValue
from catalog.files.manifest_entries import ManifestEntry

T = TypeVar("T")

_TOO_LARGE = 1.8
"""A multiple of the target size: Iceberg splits larger files."""
_LEAST_DELETE_RATIO = 1e-9
"""Iceberg does not accept 0: see optimizer.jobs.rewrite."""
_LARGEST_GROUP = 100 * 2**30
"""Iceberg's own limit on a group's bytes, for jobs without a limit."""
_POSITIONS, _EQUALITY = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteRule:
    """The sizes and limits of one rewrite."""

    target_bytes: int
    small_below: int
    min_files: int
    max_delete_ratio: float
    max_group_bytes: int
    everything: bool = False
    apply_deletes: bool = False

    @classmethod
    def of_task(cls, task: Mapping[str, Any]) -> RewriteRule:
        """The rule of a job with this task."""
        everything = bool(task.get("everything"))
        return cls(
            target_bytes=task["target_file_size"],
            small_below=min(task["small_file_size"], task["target_file_size"] - 1),
            min_files=task["min_files"],
            max_delete_ratio=max(task["max_delete_ratio"], _LEAST_DELETE_RATIO),
            max_group_bytes=_LARGEST_GROUP if everything else task["max_job_bytes"],
            everything=everything,
            apply_deletes=bool(task.get("apply_deletes")),
        )

    @property
    def large_above(self) -> int:
        """The size above which a file is split."""
        return int(_TOO_LARGE * self.target_bytes)

    def files_after(self, size: int) -> int:
        """The number of files that Iceberg writes for a group of this size."""
        if size < self.target_bytes:
            return 1
        full, rest = divmod(size, self.target_bytes)
        max_bytes = int(self.target_bytes + (self.large_above - self.target_bytes) * 0.5)
        if rest <= self.small_below and size // full < min(1.1 * self.target_bytes, max_bytes):
            return full
        return full + (rest > 0)


class AppliedDeletes:
    """The effect of a snapshot's delete files on its data files. Add all delete files before the first data file."""

    def __init__(self) -> None:
        self.count = 0
        self.nameless = 0
        """The number of delete files that name no single data file."""
        self._rows: Counter[str] = Counter()
        self._files: Counter[str] = Counter()
        self._by_partition: dict[tuple[int, int, tuple[PartitionValue, ...]], int] = {}
        self._everywhere = -1

    def add(self, file: ManifestEntry) -> None:
        """Add one delete file."""
        self.count += 1
        if file.content == _POSITIONS and file.of is not None:
            self._rows[file.of] += file.record_count
            self._files[file.of] += 1
            return
        self.nameless += 1
        if file.content == _EQUALITY and not file.partition:
            self._everywhere = max(self._everywhere, file.sequence_number)
        key = (file.content, file.spec_id, file.partition)
        self._by_partition[key] = max(self._by_partition.get(key, -1), file.sequence_number)

    def ratio(self, file: ManifestEntry) -> float:
        """The share of a data file's rows that its own delete files remove. Iceberg ignores other delete files."""
        rows = self._rows[file.location] if self._rows else 0
        return min(rows, file.record_count) / file.record_count if rows and file.record_count else 0.0

    def naming(self, file: ManifestEntry) -> int:
        """The number of delete files for this data file alone."""
        return self._files[file.location] if self._files else 0

    def may_apply_to(self, file: ManifestEntry) -> bool:
        """Whether Iceberg plans a delete file with this data file, regardless of column bounds."""
        if not self.count:
            return False
        positions = self._by_partition.get((_POSITIONS, file.spec_id, file.partition), -1)
        equality = self._by_partition.get((_EQUALITY, file.spec_id, file.partition), -1)
        newest = max(equality, self._everywhere)
        return self.naming(file) > 0 or positions >= file.sequence_number or newest > file.sequence_number


@dataclass(slots=True)
class FileGroup(Generic[T]):
    """Files that a rewrite writes together."""

    items: list[T]
    bytes: int = 0
    delete_files: int = 0
    is_forced: bool = False
    """Whether a file with deletes makes it a group, whatever its size."""

    def add(self, size: int, deletes: int, item: T, *, is_forced: bool) -> None:
        """Add a file."""
        self.items.append(item)
        self.bytes += size
        self.delete_files += deletes
        self.is_forced = self.is_forced or is_forced


class Selection(Generic[T]):
    """Takes the live data files of one snapshot one by one; `groups` then gives the groups to rewrite.

    `spec_id` is the table's current partition spec, with `width` fields. Of each file only `item` is kept.
    """

    def __init__(self, rule: RewriteRule, deletes: AppliedDeletes, *, spec_id: int, width: int) -> None:
        self._rule = rule
        self._deletes = deletes
        self._spec_id = spec_id
        self._older: tuple[Hashable, ...] = (None,) * width
        self._closed: list[FileGroup[T]] = []
        self._open: dict[tuple[Hashable, ...], FileGroup[T]] = {}

    def add(self, file: ManifestEntry, item: T) -> None:
        """Add a data file."""
        rule = self._rule
        forced = self._deletes.ratio(file) >= rule.max_delete_ratio
        forced = forced or (rule.apply_deletes and self._deletes.may_apply_to(file))
        if not (forced or rule.everything) and rule.small_below <= file.size <= rule.large_above:
            return
        key = group_key(file, spec_id=self._spec_id, older=self._older)
        group = self._open.get(key)
        if group is None or group.bytes + file.size > rule.max_group_bytes:
            if group is not None:
                self._closed.append(group)
            group = self._open[key] = FileGroup([])
        group.add(file.size, self._deletes.naming(file), item, is_forced=forced)

    def groups(self) -> Iterator[FileGroup[T]]:
        """The groups that are worth a rewrite by Iceberg's rule."""
        return (group for group in (*self._closed, *self._open.values()) if self._is_worth(group))

    def _is_worth(self, group: FileGroup[T]) -> bool:
        rule, count = self._rule, len(group.items)
        several = count > 1 and (count >= rule.min_files or group.bytes > rule.target_bytes)
        return rule.everything or several or group.bytes > rule.large_above or group.is_forced


def group_key(file: ManifestEntry, *, spec_id: int, older: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    """The key of files that a rewrite may pack together: their partition.

    Iceberg treats files of any other spec as files of the partition whose values are all null.
    """
    if file.spec_id != spec_id:
        return older
    return tuple("NaN" if value != value else value for value in file.partition)  # noqa: PLR0124 (NaN alone differs)
