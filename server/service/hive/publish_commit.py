"""Commits the files of a publish job: they replace the files of base, or of a plain table, and add no row.

So one copy of the data serves both sides. The same transaction stores in the link where the metastore has to point (see
`repoint`). The server repoints it at once, or a later sync does.

Only jobs commit to base. Others may commit to a plain table while the job runs: its files replace exactly the files
that it has read, or the commit fails. Files that others added meanwhile stay.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from catalog.errors import CatalogError, CommitUnknown, Conflict, Invalid, RequirementFailed
from catalog.files.data_file import AddSnapshot, DataFileEntry, FileFormat, LiveFile
from catalog.history.commit import TableCommit
from catalog.hive.baseline import WatchedDirectory
from catalog.hive.checkpoint import PublishPlan
from catalog.hive.listing import ListedFile
from catalog.hive.mapping import PROPERTY as NAME_MAPPING
from catalog.hive.mapping import build_name_mapping, read_aliases
from catalog.hive.model import HiveColumn, HiveTable
from catalog.hive.partition_names import parse_partition_name, to_partition_record, to_partition_records
from catalog.hive.publish_checks import check_complete, check_rows, check_unmoved
from catalog.hive.publishing import Record, build_publishing_baseline, stays
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from catalog.jobs.job import JobKind
from catalog.jobs.leases import Lease, check_lease
from catalog.ports.files import TableFiles
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from server.service.commit.commit_path import CommitRequest, Committer
from server.service.commit.commit_target import load_metadata
from server.service.hive.file_registration import discard_if_refused
from server.service.hive.hive_state import LinkedTable, join, load_linked_table, read_some, split_name
from server.service.hive.link_state import note_published, note_unrepresentable
from server.service.hive.published_permissions import PublishedPermissions, Replacement
from server.service.hive.repoint import Repointer, Switched
from server.service.hive.table_index import HiveIndex
from server.service.tables.metadata_files import MetadataFiles

TRIES = 5
"""The number of tries while others change other partitions of a plain table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The result of a publish job. Hive changed the `skipped` partitions meanwhile."""

    partitions: int
    files: int
    bytes: int
    rows: int
    switched: int
    skipped: int
    remaining: int


@dataclass(slots=True)
class _Part:
    """The files of one partition, as they are registered and as a listing of its directory shows them."""

    location: str
    entries: list[DataFileEntry] = field(default_factory=list)
    files: list[ListedFile] = field(default_factory=list)

    def directory(self, through: int) -> WatchedDirectory:
        return WatchedDirectory(
            location=self.location,
            files=tuple(sorted(self.files, key=lambda file: file.path)),
            published_through=through,
            since_ns=time.time_ns(),
            rows=sum(entry.stats.record_count for entry in self.entries),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A publish job and its table, read in one transaction."""

    linked: LinkedTable
    task: Json
    """The task without the partitions that the job left out."""
    plan: PublishPlan
    has_committed: bool


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """The partitions that a job could not write, and the reason."""

    names: Collection[str]
    reason: str


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The partitions of a job: their names and their new directories."""

    names: Mapping[Record, str]
    directories: Mapping[str, WatchedDirectory]
    unrepresentable: _LeftOut


@dataclass(frozen=True, slots=True)
class _Replaced:
    """The files, delete files included, that the job's files replace.

    `shared` are Puffin files that also hold vectors of other partitions, so they stay.
    """

    files: Sequence[LiveFile]
    shared: frozenset[str]

    def of(self, partitions: Collection[Record]) -> _Replaced:
        """The replaced files of some partitions."""
        files = [file for file in self.files if file.partition in partitions]
        stay = {file.location for file in self.files if file.content and file.partition not in partitions}
        return _Replaced(files, frozenset(file.location for file in files) & (self.shared | stay))


@dataclass(frozen=True)
class PublishedFiles:
    """The server's part of a publish job. A client may repeat the request; a crash at any point is safe."""

    database: Database
    metadata: MetadataFiles
    committer: Committer
    index: HiveIndex
    files: TableFiles
    repointer: Repointer
    permissions: PublishedPermissions

    def accept(
        self, lease: Lease, location: str, *, rows: int, unrepresentable: Collection[str] = (), reason: str = ""
    ) -> Published:
        """Register the `rows` that a job has written below `location`, and point the metastore there.

        The `unrepresentable` partitions stay as they are in Hive, because their format cannot hold their rows; the
        link notes the `reason`. If the job could write none, the server commits nothing.

        A repeated request finds the commit of the first one. Raises LeaseLost if the lease has ended; Conflict if base
        has moved since the plan, or the directory does not hold all written rows; CommitUnknown if the outcome of the
        commit is unknown.
        """
        job = self._load_job(lease, unrepresentable)
        if not location.startswith(f"{job.task['root']}/"):
            raise Invalid(f"{location} is not below {job.task['root']}, where the job has to write")
        count, left_out = len(job.task["partitions"]), _LeftOut(unrepresentable, reason)
        if not count and not job.has_committed:
            self._note_left_out(lease, job, left_out)
            return Published(partitions=0, files=0, bytes=0, rows=0, switched=0, skipped=0, remaining=0)
        parts = self._register(lease, job, location, rows, left_out)
        switched = self._repoint(job.linked.relation, count)
        return Published(
            partitions=count,
            files=sum(len(part.files) for part in parts.values()),
            bytes=sum(file.size for part in parts.values() for file in part.files),
            rows=_count_rows(parts),
            switched=switched.done,
            skipped=switched.skipped,
            remaining=switched.remaining,
        )

    def _note_left_out(self, lease: Lease, job: _Job, left_out: _LeftOut) -> None:
        with self.database.writing() as uow:
            check_lease(uow.jobs.lock(lease.job_id), lease)
            note_unrepresentable(uow, job.linked.relation.id, job.plan.tried, left_out.names, left_out.reason)

    def _register(
        self, lease: Lease, job: _Job, location: str, rows: int, left_out: _LeftOut
    ) -> Mapping[Record, _Part]:
        """Commit the files below `location`, unless the job has committed already; return them by partition."""
        relation = job.linked.relation
        table = self.index.metastore(relation.catalog).table(*split_name(relation.hive_name or ""))
        metadata = load_metadata(self.metadata, job.linked.target)
        skipped = to_partition_records(table.partition_columns, left_out.names).values()
        parts = self._read_parts(table.partition_columns, metadata, job.task, location, skipped)
        if not job.has_committed:
            check_complete(rows, _count_rows(parts))
            self._commit(lease, job, table, parts, left_out)
        return parts

    def _repoint(self, relation: Relation, partitions: int) -> Switched:
        """Point the metastore at the files; if it does not answer, base has them and the next sync repoints it."""
        try:
            return self.repointer.finish(relation)
        except (CatalogError, CommitUnknown):
            return Switched(remaining=partitions)

    def _load_job(self, lease: Lease, unrepresentable: Collection[str] = ()) -> _Job:
        with self.database.reading() as uow:
            job = check_lease(uow.jobs.get(lease.job_id), lease)
            plan = uow.baselines.staged(job.id)
            if job.kind is not JobKind.PUBLISH or not isinstance(plan, PublishPlan):
                raise Invalid(f"job {job.id} publishes nothing")
            linked = load_linked_table(uow, uow.relations.get(job.relation_id))
            recorded = uow.jobs.recorded_commits(job.id, linked.target.id)
        planned = plan.task["partitions"]
        if unplanned := set(unrepresentable) - {partition["name"] for partition in planned}:
            raise Invalid(f"partition {min(unplanned)} is not in the plan of job {job.id}")
        written = [partition for partition in planned if partition["name"] not in unrepresentable]
        task = plan.task | {"partitions": written}
        return _Job(linked=linked, task=task, plan=plan, has_committed=bool(recorded))

    def _read_parts(
        self,
        columns: Sequence[HiveColumn],
        metadata: Json,
        task: Json,
        location: str,
        skipped: Collection[Record],
    ) -> dict[Record, _Part]:
        files = [(_record_of(columns, file), file) for file in self.files.listing_below(location).files]
        files = [(record, file) for record, file in files if record not in skipped]
        records = to_partition_records(columns, _names(task))
        planned = {records[partition["name"]]: FileFormat(partition["format"]) for partition in task["partitions"]}
        locations = [join(location, file.path) for _, file in files]
        formats = {
            path: planned[record] for path, (record, _) in zip(locations, files, strict=True) if record in planned
        }
        parts: dict[Record, _Part] = {}
        stats = self.files.footers(current_schema(metadata), locations, formats)
        for (record, file), file_stats in zip(files, stats, strict=True):
            directory, _, name = file.path.rpartition("/")
            part = parts.setdefault(record, _Part(join(location, directory) if directory else location))
            part.entries.append(DataFileEntry(stats=file_stats, partition=record))
            part.files.append(replace(file, path=name, digest=file_stats.digest))
        return parts

    def _commit(
        self, lease: Lease, job: _Job, table: HiveTable, parts: Mapping[Record, _Part], unrepresentable: _LeftOut
    ) -> None:
        names = to_partition_records(table.partition_columns, _names(job.task))
        wanted = {record: name for name, record in names.items()}
        through = job.plan.through
        directories = {name: _directory(job, parts.get(record), name, through) for record, name in wanted.items()}
        if not job.linked.is_keyed:
            self._check_hive_unchanged(job, directories)
        self.permissions.keep(job.task["root"].rpartition("/")[0], _list_replacements(job, table, directories))
        for left in reversed(range(TRIES)):
            try:
                self._commit_once(lease, table, parts, _Wanted(wanted, directories, unrepresentable))
            except RequirementFailed:
                if not left:
                    raise
            else:
                return

    def _check_hive_unchanged(self, job: _Job, directories: Mapping[str, WatchedDirectory]) -> None:
        """Raise Conflict if Hive has changed a partition of a plain table since its sync.

        After the publish, such a change of a replaced file would look like a change on both sides.
        """
        baselines = job.linked.baselines
        published = {
            name: baselines.get(name) or build_publishing_baseline(directory, 0)
            for name, directory in directories.items()
        }
        relation = job.linked.relation
        state = read_some(self.index.metastore(relation.catalog), *split_name(relation.hive_name or ""), [*published])
        if changed := state.find_changed(published, self.files, job.linked.subdirectories):
            raise Conflict(f"Hive has changed {min(changed) or 'the table'} meanwhile", hint="sync, and publish again")

    def _commit_once(self, lease: Lease, table: HiveTable, parts: Mapping[Record, _Part], wanted: _Wanted) -> None:
        """Commit. Raises RequirementFailed if another commit came first."""
        job = self._load_job(lease)
        if job.has_committed:
            return
        metadata = load_metadata(self.metadata, job.linked.target)
        planned = frozenset(to_partition_records(table.partition_columns, _names(job.task)).values())
        read = _sum_replaced(self.files.live_files(metadata), planned, job.plan.sequence)
        check_unmoved(job.plan, metadata, read.files, planned, is_keyed=job.linked.is_keyed)
        replaced = read.of(wanted.names.keys())
        if unplanned := parts.keys() - wanted.names.keys():
            raise Invalid(f"the job wrote rows of partitions that its plan has not, such as {min(map(str, unplanned))}")
        snapshot = self._snapshot(metadata, parts, replaced, f"publish to {table.full_name}")

        def also(uow: UnitOfWork) -> None:
            note_published(uow, job.linked, wanted.directories, job.plan.same, job.plan.through)
            tried, unrepresentable = job.plan.tried, wanted.unrepresentable
            note_unrepresentable(uow, job.linked.relation.id, tried, unrepresentable.names, unrepresentable.reason)

        change = TableCommit(
            name=job.linked.target.name,
            requirements=snapshot.requirements(),
            updates=[*snapshot.updates(), _mapping(metadata, parts)],
        )
        catalog = job.linked.relation.catalog
        request = CommitRequest(catalog=catalog, changes=[change], lease=lease, engine="firn publish", also=also)
        with discard_if_refused(self.files, snapshot):
            self.committer.commit(request)

    def _snapshot(self, metadata: Json, parts: Mapping[Record, _Part], replaced: _Replaced, reason: str) -> AddSnapshot:
        check_rows(_count_rows(parts), replaced.files)
        with self.database.reading() as uow:
            now_ms = int(uow.now().timestamp() * 1000)
        return self.files.write_snapshot(
            metadata,
            [entry for part in parts.values() for entry in part.entries],
            {file.location for file in replaced.files} - replaced.shared,
            snapshot_id=secrets.randbits(62) + 1,
            now_ms=now_ms,
            summary_extra={"operation": "replace", "firn.reason": reason},
        )


def _names(task: Json) -> list[str]:
    return [partition["name"] for partition in task["partitions"]]


def _record_of(columns: Sequence[HiveColumn], file: ListedFile) -> Record:
    return to_partition_record(columns, parse_partition_name(columns, file.path.rpartition("/")[0])) if columns else ()


def _sum_replaced(live: Iterable[LiveFile], partitions: Collection[Record], through: int) -> _Replaced:
    """List the replaced files of these partitions: all that do not stay."""
    files, deletes = list[LiveFile](), set[str]()
    for file in live:
        if file.partition in partitions:
            if not stays(file, through):
                files.append(file)
        elif file.content:
            deletes.add(file.location)
    return _Replaced(files, frozenset(file.location for file in files) & deletes)


def _count_rows(parts: Mapping[Record, _Part]) -> int:
    return sum(entry.stats.record_count for part in parts.values() for entry in part.entries)


def _directory(job: _Job, part: _Part | None, name: str, through: int) -> WatchedDirectory:
    """The directory of a partition; one without rows gets an empty directory."""
    return (part or _Part(f"{job.task['root']}/empty/{name}")).directory(through)


def _list_replacements(
    job: _Job, table: HiveTable, directories: Mapping[str, WatchedDirectory]
) -> Iterator[Replacement]:
    for name, directory in directories.items():
        baseline = job.linked.baselines.get(name)
        yield Replacement(
            directory=directory.location,
            files=[join(directory.location, file.path) for file in directory.files],
            replaced=None if baseline is None or baseline.is_dropped else baseline.location,
            parent=table.location,
        )


def _mapping(metadata: Json, parts: Mapping[Record, _Part]) -> dict[str, Any]:
    """Add the spellings in the new files to the name mapping, because Hive's files have no field ids."""
    spelled = {alias for part in parts.values() for entry in part.entries for alias in entry.stats.aliases}
    aliases = read_aliases(metadata["properties"][NAME_MAPPING])
    mapping = build_name_mapping(current_schema(metadata), {*aliases, *spelled})
    return {"action": "set-properties", "updates": {NAME_MAPPING: mapping}}
