"""What Hive has to be given: partitions of a table that are not the files which Hive lists.

Whether a partition differs is seen from files alone. While base, or a plain table, stands on the files that Hive lists,
and nothing deletes rows of them, both sides read the same; whoever has changed it here has put others in their place.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from catalog.errors import Conflict
from catalog.files.data_file import LiveFile
from catalog.hive.baseline import ChangeSignals, PartitionBaseline, WatchedDirectory
from firn.protocol.locations import normalize_location

_EQUALITY_DELETES = 2
Record = tuple[Any, ...]
"""A partition's values as Iceberg has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishComparison:
    """The partitions of a table beside what Hive lists."""

    same: frozenset[str]
    """Names of those that stand on Hive's own files, and of those that neither side has any more."""
    differing: Mapping[str, Record]
    """Names of those that Hive knows and that differ."""
    unknown: tuple[Record, ...]
    """Those that Hive does not have."""

    @property
    def count(self) -> int:
        """How many Hive is to be given."""
        return len(self.differing) + len(self.unknown)


def compare_partitions(
    live: Iterable[LiveFile], baselines: Mapping[str, PartitionBaseline], records: Mapping[str, Record]
) -> PublishComparison:
    """The table's live files against what is known of Hive's; `records` has each ground's partition."""
    data: dict[Record, set[str]] = defaultdict(set)
    with_deletes: set[Record] = set()
    for file in live:
        if file.content:
            with_deletes.add(file.partition)
        else:
            data[file.partition].add(normalize_location(file.location))
    same: set[str] = set()
    differing: dict[str, Record] = {}
    known = {records[name]: name for name, baseline in baselines.items() if not baseline.is_dropped}
    for record, name in known.items():
        listed = {normalize_location(f"{baselines[name].location}/{file.path}") for file in baselines[name].files}
        if data.get(record, set()) == listed and record not in with_deletes:
            same.add(name)
        else:
            differing[name] = record
    same |= {name for name, one in baselines.items() if _is_gone(one) and not data.get(records[name])}
    unknown = tuple(record for record, files in data.items() if files and record not in known)
    return PublishComparison(same=frozenset(same), differing=differing, unknown=unknown)


def _is_gone(baseline: PartitionBaseline) -> bool:
    return baseline.is_dropped and baseline.publishing is None


def fingerprint_files(live: Iterable[LiveFile], partitions: Collection[Record]) -> str:
    """Which files these partitions consist of, deletes included: equal ones hold equal rows."""
    found = sorted((one.location, one.content, one.record_count) for one in live if one.partition in partitions)
    return hashlib.sha256(repr(found).encode()).hexdigest()


def stays(file: LiveFile, through: int) -> bool:
    """Whether a file is left beside what a publish has written that has read the snapshot of this sequence number.

    So is data that came since. Newer deletes are not: they may be of rows that it has written.
    """
    return file.content == 0 and file.sequence_number > through


def check_rows(written: int, replaced: Collection[LiveFile]) -> None:
    """Conflict when these files, deletes included, cannot hold the rows that were written out of them.

    How many rows deletes take away is known at most, and of equality deletes not even that.
    """
    held = sum(file.record_count for file in replaced if file.content == 0)
    is_known = all(file.content != _EQUALITY_DELETES for file in replaced)
    deleted = sum(file.record_count for file in replaced if file.content) if is_known else held
    if not held - deleted <= written <= held:
        raise Conflict(f"{written} rows were written for {held} rows of the table, of which {deleted} may be deleted")


def list_given_directories(baselines: Iterable[PartitionBaseline], before: int) -> int:
    """The change sequence that Hive has been given in all of its partitions; `before` where there is none.

    Changes up to it are in Hive's own files, and what its side makes of these it makes knowing them.
    """
    return min((one.published_through for one in baselines if not one.is_dropped), default=before)


def count_given_directories(baselines: Iterable[PartitionBaseline], before: int) -> int:
    """The change sequence that some partition contains: what was put where Hive has no partition, it was given once."""
    return max((one.published_through for one in baselines), default=before)


def select_missing_rows(directory: WatchedDirectory, before: int) -> PartitionBaseline:
    """The ground of a partition that Hive is to be given and does not have.

    Should it make one of its own meanwhile, it does so knowing what it had been given `before`.
    """
    return PartitionBaseline(
        signals=ChangeSignals(location=directory.location),
        files=(),
        published_through=before,
        is_dropped=True,
        publishing=directory,
    )


def is_same_snapshot(baseline: PartitionBaseline, through: int) -> PartitionBaseline:
    """A partition that no change up to there has touched: Hive's own files say all of it, moved ones too."""
    files = tuple(file if file.knew is None else replace(file, knew=None) for file in baseline.files)
    return replace(baseline, files=files, published_through=max(baseline.published_through, through))
