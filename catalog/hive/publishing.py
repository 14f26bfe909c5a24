"""Comparison of a table's partitions with Hive's lists of files: the partitions that a publish has to write.

Files alone show whether a partition differs. Both sides read the same rows while base, or a plain table, consists of
the files that Hive lists, without delete files. Each change in Firn replaces files.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from catalog.files.data_file import LiveFile
from catalog.hive.baseline import ChangeSignals, PartitionBaseline, WatchedDirectory
from firn.protocol.locations import normalize_location

Record = tuple[Any, ...]
"""A partition's values in Iceberg's form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishComparison:
    """The partitions of a table, compared with Hive's."""

    same: frozenset[str]
    """Names of partitions that consist of Hive's own files, or that both sides have dropped."""
    differing: Mapping[str, Record]
    """Names and values of partitions that Hive has and that differ."""
    unknown: tuple[Record, ...]
    """Values of partitions that Hive lacks."""

    @property
    def count(self) -> int:
        """The number of partitions that a publish has to write."""
        return len(self.differing) + len(self.unknown)


def compare_partitions(
    live: Iterable[LiveFile], baselines: Mapping[str, PartitionBaseline], records: Mapping[str, Record]
) -> PublishComparison:
    """Compare the table's live files with Hive's; `records` has the values of each baseline's partition."""
    data: dict[Record, set[str]] = defaultdict(set)
    with_deletes: set[Record] = set()
    for file in live:
        if file.content:
            with_deletes.add(file.partition)
        else:
            data[file.partition].add(normalize_location(file.location))
    same: set[str] = set()
    differing: dict[str, Record] = {}
    names = {records[name]: name for name, baseline in baselines.items() if not baseline.is_dropped}
    for record, name in names.items():
        hive_files = {normalize_location(f"{baselines[name].location}/{file.path}") for file in baselines[name].files}
        if data.get(record, set()) == hive_files and record not in with_deletes:
            same.add(name)
        else:
            differing[name] = record
    same |= {name for name, baseline in baselines.items() if _is_gone(baseline) and not data.get(records[name])}
    unknown = tuple(record for record, files in data.items() if files and record not in names)
    return PublishComparison(same=frozenset(same), differing=differing, unknown=unknown)


def _is_gone(baseline: PartitionBaseline) -> bool:
    return baseline.is_dropped and baseline.publishing is None


def fingerprint_files(live: Iterable[LiveFile], partitions: Collection[Record]) -> str:
    """A digest of the files of these partitions, delete files included. Equal digests mean equal rows."""
    fingerprints = sorted(
        (file.location, file.content, file.record_count) for file in live if file.partition in partitions
    )
    return hashlib.sha256(repr(fingerprints).encode()).hexdigest()


def stays(file: LiveFile, through: int) -> bool:
    """Whether a file stays in the table beside the output of a publish that read the snapshot of this sequence number.

    Newer data files stay. Newer delete files do not: they may delete rows that the publish wrote.
    """
    return file.content == 0 and file.sequence_number > through


def find_published_sequence(baselines: Iterable[PartitionBaseline], before: int) -> int:
    """The change sequence that all of Hive's partitions contain; `before` if Hive has no partitions.

    Changes up to it are in Hive's own files, so later writes of Hive's side build on them.
    """
    return min((baseline.published_through for baseline in baselines if not baseline.is_dropped), default=before)


def find_newest_sequence(baselines: Iterable[PartitionBaseline], before: int) -> int:
    """The newest change sequence that any partition contains, dropped partitions included."""
    return max((baseline.published_through for baseline in baselines), default=before)


def build_publishing_baseline(directory: WatchedDirectory, before: int) -> PartitionBaseline:
    """The baseline of a partition that a publish creates in Hive.

    If Hive creates the partition itself meanwhile, its rows build on the change sequence `before`.
    """
    return PartitionBaseline(
        signals=ChangeSignals(location=directory.location),
        files=(),
        published_through=before,
        is_dropped=True,
        publishing=directory,
    )


def mark_published(baseline: PartitionBaseline, through: int) -> PartitionBaseline:
    """The baseline of a partition without unpublished changes up to that sequence: Hive's files have all its rows."""
    files = tuple(file if file.knew is None else replace(file, knew=None) for file in baseline.files)
    return replace(baseline, files=files, published_through=max(baseline.published_through, through))
