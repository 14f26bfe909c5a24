"""Compares a linked table with Hive before and during a downgrade: the work that remains, and what blocks it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from catalog.errors import CatalogError
from catalog.hive.baseline import WatchedDirectory
from catalog.hive.model import HiveTable, describe_owner
from catalog.hive.partition_names import to_partition_records
from catalog.hive.publish_decisions import PartitionsInHive, TableSides, find_unpublishable
from catalog.hive.publishing import PublishComparison, compare_partitions
from catalog.iceberg.json import Json
from catalog.names import CatalogName
from catalog.ports.files import TableFiles
from catalog.ports.metastore import LockHolder
from catalog.ports.store import Database
from catalog.tables.relation import Relation
from server.service.commit.commit_target import load_metadata
from server.service.hive.hive_state import LinkedTable, find_linked_relation, load_linked_table, read_some, split_name
from server.service.hive.table_index import HiveIndex
from server.service.planning.planner import load_facts
from server.service.tables.metadata_files import MetadataFiles

_NAMED = 3
MOST_DIRECTORIES = 20
"""The number of directories that a preview names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedDirectory:
    """A directory that a publish replaced, to which a Hive job from before may still write until its time is over."""

    partition: str
    location: str
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradePreview:
    """The work of a downgrade, as far as the server knows it before the start."""

    table: str
    partitions: int
    pending_rows: int
    """Changes that no merge has brought into base yet."""
    differing: int
    """Partitions whose files in base are not the files that Hive lists."""
    directories_in_grace: int
    """Superseded directories that a Hive job may still write to."""
    grace_until: datetime | None
    """When the grace period of the last of them ends."""
    grace_seconds: int
    """The time for which a downgrade watches a superseded directory (`firn.hive.superseded-dir-grace`)."""
    directories: tuple[AwaitedDirectory, ...]
    """Some of these directories, those with the longest wait first."""
    writers: tuple[LockHolder, ...]
    """Hive jobs that write now, as far as they take locks of the metastore."""
    likely_author: str | None
    """Who last altered the table in Hive, and its owner: people to ask which jobs write to it."""
    ends_after: datetime | None
    """The earliest end with the wait for writers; None if nothing makes the downgrade wait."""
    wait: str
    """Why the downgrade waits, in a sentence; empty if it does not."""
    drift: str | None
    """Changes of Hive that the user has to decide about first."""
    blocked: str | None
    """The changes that Hive cannot represent, and what to do: with them a downgrade never ends."""


@dataclass(frozen=True, slots=True)
class DowngradeComparison:
    """A linked table beside the files that Hive lists."""

    linked: LinkedTable
    table: HiveTable
    partitions: PublishComparison
    blocked: str | None
    """Why Hive cannot represent some partition, and what to do."""

    @property
    def watched(self) -> Sequence[WatchedDirectory]:
        """Superseded directories that a Hive job may still write to."""
        return [directory for baseline in self.linked.baselines.values() for directory in baseline.watched]

    @property
    def awaited(self) -> tuple[AwaitedDirectory, ...]:
        """The watched directories with their partitions and times, those with the longest wait first."""
        watched = [
            (directory.since_ns, name, directory.location)
            for name, baseline in self.linked.baselines.items()
            for directory in baseline.watched
        ]
        return tuple(
            AwaitedDirectory(partition=name, location=location, since=_to_time(since), until=self._find_end(since))
            for since, name, location in sorted(watched, reverse=True)
        )

    @property
    def grace_until(self) -> datetime | None:
        """When the grace period of the last watched directory ends; None without any."""
        superseded_ns = max((directory.since_ns for directory in self.watched), default=None)
        return None if superseded_ns is None else self._find_end(superseded_ns)

    def _find_end(self, since_ns: int) -> datetime:
        return _to_time(since_ns + self.linked.when.watch_ns)


def explain_wait(comparison: DowngradeComparison, *, starts_anew: bool) -> str:
    """Say in a sentence for which writers a downgrade waits; empty if it waits for none."""
    if starts_anew:
        return "the publish replaces directories of Hive, and a Hive job that started before it may still write to them"
    names = [directory.partition or "the table" for directory in comparison.awaited]
    if not names:
        return ""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"a Hive job that started before the last publish may still write to {', '.join(names[:_NAMED])}{more}"


def _to_time(time_ns: int) -> datetime:
    return datetime.fromtimestamp(time_ns / 1e9, UTC)


@dataclass(frozen=True)
class DowngradeCheck:
    """Reads the table, the metastore and the table's live files; changes nothing."""

    database: Database
    metadata: MetadataFiles
    index: HiveIndex
    files: TableFiles

    def preview(self, catalog: CatalogName, target: str) -> DowngradePreview:
        """Return the remaining work. NotFound without a linked table, Unavailable without the metastore."""
        with self.database.reading() as uow:
            relation = find_linked_relation(uow, catalog, target)
            facts = load_facts(uow, relation)
        comparison = self.compare(relation)
        linked = comparison.linked
        grace: timedelta = facts.policy["firn.hive.superseded-dir-grace"]
        pending = 0 if facts.keyed is None else facts.keyed.pending_rows
        starts_anew = bool(pending or comparison.partitions.differing)
        ends_after = self._now() + grace if starts_anew else comparison.grace_until
        return DowngradePreview(
            table=str(relation.name),
            partitions=sum(not baseline.is_dropped for baseline in linked.baselines.values()),
            pending_rows=pending,
            differing=comparison.partitions.count,
            directories_in_grace=len(comparison.watched),
            grace_until=comparison.grace_until,
            grace_seconds=int(grace.total_seconds()),
            directories=comparison.awaited[:MOST_DIRECTORIES],
            writers=self.find_writers(relation),
            likely_author=describe_owner(comparison.table),
            ends_after=ends_after if grace else None,
            wait=explain_wait(comparison, starts_anew=starts_anew) if grace else "",
            drift=None if linked.link.drift is None else linked.link.drift.message,
            blocked=comparison.blocked,
        )

    def compare(self, relation: Relation) -> DowngradeComparison:
        """Compare the table's live files with the files that Hive lists."""
        with self.database.reading() as uow:
            linked = load_linked_table(uow, uow.relations.get(relation.id))
        table, metadata = self.index.table(relation), load_metadata(self.metadata, linked.target)
        records = to_partition_records(table.partition_columns, linked.baselines)
        partitions = compare_partitions(self.files.live_files(metadata), linked.baselines, records)
        return DowngradeComparison(linked, table, partitions, self._find_blocked(linked, table, metadata, partitions))

    def find_writers(self, relation: Relation) -> tuple[LockHolder, ...]:
        """List the Hive jobs that hold a lock; none if the metastore does not say."""
        with suppress(CatalogError):
            names = split_name(relation.hive_name or "")
            return tuple(self.index.metastore(relation.catalog).lock_holders(*names))
        return ()

    def _now(self) -> datetime:
        with self.database.reading() as uow:
            return uow.now()

    def _find_blocked(
        self, linked: LinkedTable, table: HiveTable, metadata: Json, partitions: PublishComparison
    ) -> str | None:
        """Explain why Hive cannot represent some partition; neither a sync nor time changes that."""
        metastore = self.index.metastore(linked.relation.catalog)
        state = read_some(metastore, table.database, table.name, [*partitions.differing])
        in_hive = PartitionsInHive(formats={unit.name: unit.format for unit in state.units})
        sides = TableSides(link=linked.link, table=table, metadata=metadata)
        return find_unpublishable(sides, partitions, in_hive, self.files.live_files(metadata))
