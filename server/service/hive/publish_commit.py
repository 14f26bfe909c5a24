"""What a publish job has written takes the place of base's own files, or of a plain table's: a commit of no new row.

So one copy of the data serves both sides. The books say in the same transaction what the metastore is still to be
pointed at (see `switch`), which is done at once, and by every later sync where that did not come to pass.

Nobody but jobs commits to base. To a plain table anybody does, while the job reads and writes: its files take the place
of those that it has read, or of none, and beside them stays what was only added since.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from catalog.errors import CatalogError, CommitUnknown, Conflict, Invalid, RequirementFailed
from catalog.files.data_file import AddSnapshot, DataFileEntry, FileFormat, LiveFile
from catalog.history.commit import TableCommit
from catalog.hive.baseline import ListedFile, WatchedDirectory
from catalog.hive.checkpoint import PublishPlan
from catalog.hive.mapping import PROPERTY as NAME_MAPPING
from catalog.hive.mapping import build_name_mapping, read_aliases
from catalog.hive.model import HiveColumn, HiveTable
from catalog.hive.partition_names import parse_partition_name, to_partition_record, to_partition_records
from catalog.hive.publishing import Record, build_publishing_baseline, check_rows, fingerprint_files, stays
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema, ref_snapshot_id
from catalog.jobs.job import JobKind
from catalog.jobs.leases import Lease, check_lease
from catalog.ports.files import TableFiles
from catalog.ports.store import Database, UnitOfWork
from server.service.commit.commit_path import CommitRequest, Committer
from server.service.commit.commit_target import load_metadata
from server.service.hive.file_registration import discard_if_refused
from server.service.hive.hive_state import join, read_some, split_name
from server.service.hive.link_state import LinkedTable, load_linked_table, note_published, note_unrepresentable
from server.service.hive.repoint import Repointer, Switched
from server.service.hive.table_index import HiveIndex
from server.service.tables.metadata_files import MetadataFiles

TRIES = 5
"""How often a plain table is looked at again that others have changed in other partitions meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What became of a job's files; `skipped` are partitions that Hive has changed meanwhile."""

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
    listed: list[ListedFile] = field(default_factory=list)

    def directory(self, through: int) -> WatchedDirectory:
        return WatchedDirectory(
            location=self.location,
            files=tuple(sorted(self.listed, key=lambda file: file.path)),
            published_through=through,
            since_ns=time.time_ns(),
            rows=sum(entry.stats.record_count for entry in self.entries),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A publish job and its table, read in one transaction."""

    linked: LinkedTable
    task: Json
    """Without the partitions that were left out."""
    plan: PublishPlan
    has_committed: bool


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """The partitions that a job has not written, and why not."""

    names: Collection[str]
    reason: str


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The partitions that a job was to write: their names, and where they lie now."""

    names: Mapping[Record, str]
    directories: Mapping[str, WatchedDirectory]
    unrepresentable: _LeftOut


@dataclass(frozen=True, slots=True)
class _Replaced:
    """The files that what was written takes the place of, deletes included.

    `shared` are Puffin files with vectors of other partitions too: those of files that go, go with these.
    """

    files: Sequence[LiveFile]
    shared: frozenset[str]

    def of(self, partitions: Collection[Record]) -> _Replaced:
        """Those of some of the partitions alone."""
        files = [one for one in self.files if one.partition in partitions]
        stay = {one.location for one in self.files if one.content and one.partition not in partitions}
        return _Replaced(files, frozenset(one.location for one in files) & (self.shared | stay))


@dataclass(frozen=True)
class PublishedFiles:
    """The server's part of a publish job; safe to be asked again, and to be interrupted anywhere."""

    database: Database
    metadata: MetadataFiles
    committer: Committer
    index: HiveIndex
    files: TableFiles
    repointer: Repointer

    def accept(
        self, lease: Lease, location: str, *, rows: int, unrepresentable: Collection[str] = (), reason: str = ""
    ) -> Published:
        """Register the `rows` that a job has written below `location`, and point the metastore there.

        `unrepresentable` partitions differ from Hive as before: their format cannot hold their rows, which
        is noted with the reason `reason`. When all are, nothing is committed.

        Asked again after an answer was lost, it finds the commit done. LeaseLost when the lease has ended, Conflict
        when base has moved since the job was planned or what lies there is not what was written, CommitUnknown when
        nobody knows.
        """
        job = self._job(lease, unrepresentable)
        if not location.startswith(f"{job.task['root']}/"):
            raise Invalid(f"{location} is not where the job was to write")
        relation = job.linked.relation
        if not job.task["partitions"] and not job.has_committed:
            with self.database.writing() as uow:
                check_lease(uow.jobs.lock(lease.job_id), lease)
                note_unrepresentable(uow, relation.id, job.plan.tried, unrepresentable, reason)
            return Published(partitions=0, files=0, bytes=0, rows=0, switched=0, skipped=0, remaining=0)
        table = self.index.metastore(relation.catalog).table(*split_name(relation.hive_name or ""))
        metadata = load_metadata(self.metadata, job.linked.target)
        passed_over = to_partition_records(table.partition_columns, unrepresentable).values()
        parts = self._parts(table.partition_columns, metadata, job.task, location, passed_over)
        if not job.has_committed:
            _check_all_there(parts, rows)
            self._commit(lease, job, table, parts, _LeftOut(unrepresentable, reason))
        try:
            switched = self.repointer.finish(relation)
            left = switched.remaining
        except (CatalogError, CommitUnknown):  # base stands on the files: the next sync points the metastore there
            switched, left = Switched(), len(job.task["partitions"])
        return Published(
            partitions=len(job.task["partitions"]),
            files=sum(len(part.listed) for part in parts.values()),
            bytes=sum(file.size for part in parts.values() for file in part.listed),
            rows=_rows(parts),
            switched=switched.done,
            skipped=switched.skipped,
            remaining=left,
        )

    def _job(self, lease: Lease, unrepresentable: Collection[str] = ()) -> _Job:
        with self.database.reading() as uow:
            job = check_lease(uow.jobs.get(lease.job_id), lease)
            plan = uow.baselines.staged(job.id)
            if job.kind is not JobKind.PUBLISH or not isinstance(plan, PublishPlan):
                raise Invalid(f"job {job.id} publishes nothing")
            linked = load_linked_table(uow, uow.relations.get(job.relation_id))
            recorded = uow.jobs.recorded_commits(job.id, linked.target.id)
        planned = plan.task["partitions"]
        if strange := set(unrepresentable) - {one["name"] for one in planned}:
            raise Invalid(f"the job was not to write partition {min(strange)}")
        task = plan.task | {"partitions": [one for one in planned if one["name"] not in unrepresentable]}
        return _Job(linked=linked, task=task, plan=plan, has_committed=bool(recorded))

    def _parts(
        self,
        columns: Sequence[HiveColumn],
        metadata: Json,
        task: Json,
        location: str,
        passed_over: Collection[Record],
    ) -> dict[Record, _Part]:
        listed = [(_record_of(columns, file), file) for file in self.files.listing_below(location).files]
        listed = [(record, file) for record, file in listed if record not in passed_over]
        told = to_partition_records(columns, [one["name"] for one in task["partitions"]])
        wanted = {told[one["name"]]: FileFormat(one["format"]) for one in task["partitions"]}
        locations = [join(location, file.path) for _, file in listed]
        formats = {one: wanted[record] for one, (record, _) in zip(locations, listed, strict=True) if record in wanted}
        found: dict[Record, _Part] = {}
        stats = self.files.footers(current_schema(metadata), locations, formats)
        for (record, file), one in zip(listed, stats, strict=True):
            directory, _, name = file.path.rpartition("/")
            part = found.setdefault(record, _Part(join(location, directory) if directory else location))
            part.entries.append(DataFileEntry(stats=one, partition=record))
            part.listed.append(replace(file, path=name, digest=one.digest))
        return found

    def _commit(
        self, lease: Lease, job: _Job, table: HiveTable, parts: Mapping[Record, _Part], unrepresentable: _LeftOut
    ) -> None:
        names = to_partition_records(table.partition_columns, [one["name"] for one in job.task["partitions"]])
        wanted = {record: name for name, record in names.items()}
        through = job.plan.through
        directories = {name: _directory(job, parts.get(record), name, through) for record, name in wanted.items()}
        if not job.linked.is_keyed:
            self._check_hive_unchanged(job, directories)
        for left in reversed(range(TRIES)):
            try:
                self._commit_once(lease, table, parts, _Wanted(wanted, directories, unrepresentable))
            except RequirementFailed:
                if not left:
                    raise
            else:
                return

    def _check_hive_unchanged(self, job: _Job, directories: Mapping[str, WatchedDirectory]) -> None:
        """Conflict where Hive has changed a partition of a plain table since it was synced.

        What it did to files that the publish then takes from the table would look like a change on both sides.
        """
        baselines = job.linked.baselines
        published = {
            name: baselines.get(name) or build_publishing_baseline(one, 0) for name, one in directories.items()
        }
        relation = job.linked.relation
        state = read_some(self.index.metastore(relation.catalog), *split_name(relation.hive_name or ""), [*published])
        if changed := state.find_changed(published, self.files, job.linked.subdirectories):
            raise Conflict(f"Hive has changed {min(changed) or 'the table'} meanwhile", hint="sync, and publish again")

    def _commit_once(self, lease: Lease, table: HiveTable, parts: Mapping[Record, _Part], wanted: _Wanted) -> None:
        """RequirementFailed when somebody else was faster."""
        job = self._job(lease)
        if job.has_committed:
            return
        metadata = load_metadata(self.metadata, job.linked.target)
        planned = to_partition_records(
            table.partition_columns, [one["name"] for one in job.task["partitions"]]
        ).values()
        read = _replaced(self.files.live_files(metadata), frozenset(planned), job.plan.sequence)
        _check_unmoved(job, metadata, read.files, frozenset(planned))
        replaced = read.of(wanted.names.keys())
        if strange := parts.keys() - wanted.names.keys():
            raise Invalid(f"rows of partitions that were not asked for, such as {min(map(str, strange))}")
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
        check_rows(_rows(parts), replaced.files)
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


def _record_of(columns: Sequence[HiveColumn], file: ListedFile) -> Record:
    return to_partition_record(columns, parse_partition_name(columns, file.path.rpartition("/")[0])) if columns else ()


def _replaced(live: Iterable[LiveFile], partitions: Collection[Record], through: int) -> _Replaced:
    """All of these partitions but what stays beside it."""
    files, deletes = list[LiveFile](), set[str]()
    for file in live:
        if file.partition in partitions:
            if not stays(file, through):
                files.append(file)
        elif file.content:
            deletes.add(file.location)
    return _Replaced(files, frozenset(file.location for file in files) & deletes)


def _check_unmoved(job: _Job, metadata: Json, live: Sequence[LiveFile], partitions: Collection[Record]) -> None:
    """The files that go are those that the job has read, and its columns are the table's; Conflict if they are not."""
    head, plan = ref_snapshot_id(metadata, "main"), job.plan
    if metadata["current-schema-id"] != plan.schema_id:
        raise Conflict("the table's columns have changed since the publish was planned", hint="it is planned anew")
    if head == plan.head:
        return
    if job.linked.is_keyed:
        raise Conflict("base has moved since the publish was planned", hint="it is planned anew")
    if fingerprint_files(live, partitions) != plan.files:
        raise Conflict("a partition was changed here while it was written for Hive", hint="it is planned anew")


def _rows(parts: Mapping[Record, _Part]) -> int:
    return sum(entry.stats.record_count for part in parts.values() for entry in part.entries)


def _check_all_there(parts: Mapping[Record, _Part], rows: int) -> None:
    """Both sides will stand on these files alone: a listing that misses one would lose its rows for good."""
    if _rows(parts) != rows:
        raise Conflict(f"{rows} rows were written and {_rows(parts)} are listed", hint="the next publish writes anew")


def _directory(job: _Job, part: _Part | None, name: str, through: int) -> WatchedDirectory:
    """A partition without rows gets an empty directory."""
    return (part or _Part(f"{job.task['root']}/empty/{name}")).directory(through)


def _mapping(metadata: Json, parts: Mapping[Record, _Part]) -> dict[str, Any]:
    """Hive's files have no field ids: every spelling in them belongs into the name mapping."""
    spelled = {alias for part in parts.values() for entry in part.entries for alias in entry.stats.aliases}
    known = read_aliases(metadata["properties"][NAME_MAPPING])
    mapping = build_name_mapping(current_schema(metadata), {*known, *spelled})
    return {"action": "set-properties", "updates": {NAME_MAPPING: mapping}}
