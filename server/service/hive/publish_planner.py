"""Plans one publish of one table: detects the changes that Hive lacks, classifies each partition, and queues a job.

The plan needs only lists of files and the metastore; an optimizer reads and writes the rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from catalog.errors import CommitUnknown, Conflict, RequirementFailed
from catalog.files.data_file import FileFormat
from catalog.history.commit import TableCommit
from catalog.hive.baseline import PartitionBaseline
from catalog.hive.checkpoint import PublishPlan
from catalog.hive.listing import Subdirectories
from catalog.hive.model import HiveColumn, HiveTable
from catalog.hive.publish_decisions import PartitionsInHive, PublishClassification, TableSides, classify_partitions
from catalog.hive.publishing import fingerprint_files
from catalog.hive.schema_diff import is_prefix_type
from catalog.hive.types import parse_type
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot, sequence_number
from catalog.iceberg.table import current_schema, ref_snapshot_id
from catalog.jobs.job import Job, JobKind
from catalog.keyed.spec import BASE
from catalog.keyed.store_commit import read_watermark
from catalog.keyed.view_sql import name_pinned_view
from catalog.locations.location_rule import PUBLISH_LOCATION
from catalog.planning import Due
from catalog.planning.trigger_result import format_count
from catalog.ports.files import TableFiles
from catalog.ports.store import Database
from catalog.tables.relation import Relation, RelationKind
from server.service.commit.commit_path import CommitRequest
from server.service.commit.commit_target import load_metadata
from server.service.hive.file_registration import Moved, discard_if_refused
from server.service.hive.hive_state import LinkedTable, load_linked_table, read_some
from server.service.hive.link_state import forget_unrepresentable, note_all_published, note_published
from server.service.hive.publish_locations import (
    WritersReach,
    get_own_directory,
    get_publish_directory,
    publish_location,
)
from server.service.hive.published_permissions import PublishedPermissions
from server.service.hive.repoint import Repointer
from server.service.hive.results import PublishOutcome, PublishResult
from server.service.hive.schema_sync import SchemaSync, SchemaSyncResult
from server.service.hive.table_index import HiveIndex
from server.service.hive.task_columns import current_names, describe_column, describe_values
from server.service.jobs.admission import check_not_blocked
from server.service.jobs.job_queue import enqueue, make_job
from server.service.locations.allowed_locations import check_published
from server.service.planning.planner import load_facts
from server.service.tables.metadata_files import MetadataFiles

NOTHING = "nothing to publish"


class Waits(Exception):
    """The publish has to wait; the message names the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """A linked table and its Hive table, once both have the same columns as far as the policy allows."""

    linked: LinkedTable
    table: HiveTable
    columns: SchemaSyncResult
    metadata: Json
    lost_since_ns: int
    """If a partition of Hive lost files after this time, an overwrite may still run."""

    @property
    def sides(self) -> TableSides:
        """The link, the Hive table and the metadata."""
        return TableSides(link=self.linked.link, table=self.table, metadata=self.metadata)


@dataclass(frozen=True)
class PublishPlanner:
    """Plans publishes; safe to run at any time, any number of times."""

    database: Database
    metadata: MetadataFiles
    index: HiveIndex
    files: TableFiles
    repointer: Repointer
    columns: SchemaSync
    permissions: PublishedPermissions
    reach: WritersReach

    def plan(self, relation: Relation, *, requested: bool) -> PublishResult:
        """Queue a job that writes the differing partitions, unless none differs or another job works on the table."""
        with self.database.reading() as uow:
            busy = uow.jobs.active_of(relation.id)
        if busy is not None:
            return _build_busy_result(relation, busy, requested=requested)
        try:
            detected = self._detect(relation)
            return self._apply(detected, self._classify(detected), requested=requested)
        except Waits as waits:
            return PublishResult(table=str(relation.name), outcome=PublishOutcome.WAITING, message=str(waits))

    def _detect(self, relation: Relation) -> Detected:
        """Finish open publishes, and bring both sides' columns into step."""
        if (still_open := self.repointer.finish(relation)).remaining:
            raise Waits(still_open.why_left)
        with self.database.reading() as uow:
            linked = load_linked_table(uow, uow.relations.get(relation.id))
            now_ns = int(uow.now().timestamp() * 1e9)
        table = self.index.table(relation)
        try:
            columns = self.columns.follow(linked, table, publishing=True)
        except Moved as error:
            raise Waits("a sync came first") from error
        linked = columns.linked
        if linked.link.read_again:
            raise Waits("a sync builds partitions anew with a column that came back")
        return Detected(
            linked=linked,
            table=table,
            columns=columns,
            metadata=load_metadata(self.metadata, linked.target),
            lost_since_ns=now_ns - linked.when.overwrite_ns,
        )

    def _classify(self, detected: Detected) -> PublishClassification:
        """Decide about each partition; the planner reads Hive only for partitions that the link's filters let through.

        Hive may have changed a partition of a plain table since the last sync. A partition of a keyed table is rebuilt
        in any case: its publish detects such a change when it repoints the metastore.
        """
        linked = detected.linked
        classified = classify_partitions(
            detected.sides,
            linked.baselines,
            read_live=lambda: self.files.live_files(detected.metadata),
            read_hive=lambda differing: self._read_hive(detected, differing),
            watermark=read_watermark(detected.metadata),
            lost_since_ns=detected.lost_since_ns,
        )
        if classified.stale_notes:
            with self.database.writing() as uow:
                forget_unrepresentable(uow, linked.relation.id, classified.stale_notes)
        return classified

    def _read_hive(self, detected: Detected, differing: Sequence[str]) -> PartitionsInHive:
        linked, table = detected.linked, detected.table
        state = read_some(self.index.metastore(linked.relation.catalog), table.database, table.name, differing)
        changed = set[str]()
        if differing and not linked.is_keyed:
            baselines = {name: linked.baselines[name] for name in differing}
            changed = state.find_changed(baselines, self.files, linked.subdirectories)
        return PartitionsInHive(formats={unit.name: unit.format for unit in state.units}, changed=changed)

    def _apply(self, detected: Detected, classified: PublishClassification, *, requested: bool) -> PublishResult:
        """Queue the job, or note that Hive has everything."""
        linked, held = detected.linked, classified.held_back
        to_write = classified.to_write
        if not to_write:
            self._note_all_given(linked, detected.metadata, classified.same, is_all=not held)
            outcome = PublishOutcome.HELD_BACK if held else PublishOutcome.UP_TO_DATE
            return _result(linked.relation, outcome, NOTHING, classified)
        self._check_reach(detected)
        try:
            metadata = self._align_head(linked, detected.metadata)
        except RequirementFailed as error:
            raise Waits("others have changed the table meanwhile") from error
        plan = self._plan(replace(detected, metadata=metadata), classified)
        try:
            self.repointer.owners.claim(linked.relation, detected.table, [*to_write])
        except CommitUnknown as error:
            raise Waits(str(error)) from error
        message = f"{format_count(len(to_write), 'partition')} to publish"
        job = self._queue(linked, plan, message, requested=requested)
        return replace(_result(linked.relation, PublishOutcome.PUBLISHING, message, classified), job=job)

    def _check_reach(self, detected: Detected) -> None:
        """Raise Conflict if Hive's writers could not write into published partitions any more."""
        with self.database.reading() as uow:
            directory = get_publish_directory(uow, detected.linked.relation)
        self.reach.check(detected.table.location, directory)

    def _align_head(self, linked: LinkedTable, metadata: Json) -> Json:
        """Return metadata in which the head of a plain table has the current columns; a new head has the same files.

        The job reads a plain table at one snapshot, and engines read a snapshot with the columns of its time. Files
        that are older than a column may hold values of it. Jobs read a keyed table through views instead.
        Raises RequirementFailed if another commit came first.
        """
        head = current_snapshot(metadata)
        if linked.is_keyed or (head is not None and head.get("schema-id") == metadata["current-schema-id"]):
            return metadata
        with self.database.reading() as uow:
            now_ms = int(uow.now().timestamp() * 1000)
        reason = "so that readers of this snapshot get the current columns"
        snapshot = self.files.write_snapshot(
            metadata,
            (),
            (),
            snapshot_id=secrets.randbits(62) + 1,
            now_ms=now_ms,
            summary_extra={"operation": "replace", "firn.reason": reason},
        )
        change = TableCommit(name=linked.target.name, requirements=snapshot.requirements(), updates=snapshot.updates())
        request = CommitRequest(
            catalog=linked.relation.catalog, changes=[change], engine="firn publish", follows_hive=True
        )
        with discard_if_refused(self.files, snapshot):
            self.columns.committer.commit(request)
        with self.database.reading() as uow:
            target = uow.relations.get(linked.target.id)
        return self._align_head(linked, load_metadata(self.metadata, target))  # columns may have changed again

    def _note_all_given(self, linked: LinkedTable, metadata: Json, same: tuple[str, ...], *, is_all: bool) -> None:
        with self.database.writing() as uow:
            now = load_linked_table(uow, linked.relation)
            # Hive's side may have written the files of a newer sync without the changes of this publish.
            if now.link.generation != linked.link.generation:
                return
            note_published(uow, linked, {}, same, read_watermark(metadata))
            if is_all and now.baselines == linked.baselines:
                note_all_published(uow, linked, ref_snapshot_id(metadata, "main"))

    def _plan(self, detected: Detected, classified: PublishClassification) -> PublishPlan:
        """The plan of the job, and the facts that validate its commit."""
        metadata, to_write = detected.metadata, classified.to_write
        head, files = current_snapshot(metadata), None
        if not detected.linked.is_keyed:
            files = fingerprint_files(self.files.live_files(metadata), {*to_write.values()})
        return PublishPlan(
            task={
                **_task(detected, {name: classified.formats[name] for name in to_write}),
                "private": self.permissions.is_private(_list_replaced(detected, to_write)),
            },
            head=ref_snapshot_id(metadata, "main"),
            sequence=0 if head is None else sequence_number(head),
            schema_id=metadata["current-schema-id"],
            through=read_watermark(metadata),
            same=classified.same,
            tried=classified.digests,
            files=files,
        )

    def _queue(self, linked: LinkedTable, plan: PublishPlan, reason: str, *, requested: bool) -> Job:
        relation = linked.relation
        with self.database.writing() as uow:
            if load_linked_table(uow, relation).link.generation != linked.link.generation:
                raise Waits("a sync came first")
            check_not_blocked(uow, relation.id, JobKind.PUBLISH)
            due = Due(kind=JobKind.PUBLISH, reason=reason, state=f"publish {linked.link.generation}")
            now = uow.now()
            job = make_job(relation, due, load_facts(uow, relation), now, requested=requested)
            if not enqueue(uow, job, now):
                raise Waits("another job came first")
            root = f"{get_own_directory(uow, relation, _list_counted_locations(linked))}/{job.id}"
            location = publish_location(uow, relation) or ""
            check_published(uow, self.metadata.files, relation.catalog, {PUBLISH_LOCATION: location})
            uow.baselines.stage(job.id, replace(plan, task={**plan.task, "root": root}))
        return job


def _result(
    relation: Relation, outcome: PublishOutcome, message: str, classified: PublishClassification
) -> PublishResult:
    held = classified.held_back
    return PublishResult(
        table=str(relation.name),
        outcome=outcome,
        message="; ".join([message, *(group.message for group in held)]),
        held_back=held,
        never=classified.blocked,
    )


def _build_busy_result(relation: Relation, busy: Job, *, requested: bool) -> PublishResult:
    """The result while a job works on the table. A running publish of a keyed table satisfies the request."""
    name = str(relation.name)
    if requested and busy.kind is JobKind.PUBLISH and relation.kind is RelationKind.KEYED:
        outcome = PublishOutcome.PUBLISHING
        return PublishResult(table=name, outcome=outcome, message="is being published", job=busy)
    message = f"a {busy.kind} job is {busy.status}"
    return PublishResult(table=name, outcome=PublishOutcome.WAITING, message=message)


def _list_counted_locations(linked: LinkedTable) -> set[str]:
    """The directories of partitions in which Hive reads sub-directories."""
    if linked.subdirectories is not Subdirectories.READ:
        return set()
    baselines: list[PartitionBaseline] = [*linked.baselines.values()]
    watched = [directory.location for baseline in baselines for directory in baseline.watched]
    return {*(baseline.location for baseline in baselines), *watched}


def _list_replaced(detected: Detected, names: Iterable[str]) -> Iterator[str]:
    """The directories that a publish of these partitions replaces, and the one where Hive creates new ones."""
    yield detected.table.location
    for name in names:
        baseline = detected.linked.baselines.get(name)
        if baseline is not None and not baseline.is_dropped:
            yield baseline.location


def _task(detected: Detected, formats: Mapping[str, FileFormat]) -> Json:
    """The task of the optimizer: the partitions to write, the snapshot to read, and the columns."""
    linked, table, metadata = detected.linked, detected.table, detected.metadata
    names = current_names(metadata)
    columns = [describe_column(column, names) for column in _list_written_columns(table, detected.columns)]
    partitioned_by = [describe_column(column, names) for column in table.partition_columns]
    _check_none_lost(linked.relation, table, [*columns, *partitioned_by])
    published = {column["name"] for column in (*columns, *partitioned_by)}
    head, name = ref_snapshot_id(metadata, "main"), linked.relation.name
    pinned = [*name.as_namespace, name_pinned_view(BASE, head, metadata["current-schema-id"])]
    return {
        "base": pinned if linked.is_keyed else [*name.namespace, name.name],
        "snapshot": None if linked.is_keyed else head,
        "columns": columns,
        "own_columns": [
            field["name"] for field in current_schema(metadata)["fields"] if field["name"] not in published
        ],
        "partition_columns": partitioned_by,
        "partitions": [
            {"name": name, "values": describe_values(table, name), "format": str(format_)}
            for name, format_ in formats.items()
        ],
    }


def _check_none_lost(relation: Relation, table: HiveTable, columns: list[Json]) -> None:
    lost = [column["hive"] for column in columns if column["name"] is None]
    if lost:
        raise Conflict(
            f"{table.full_name} has columns that {relation.name} lacks: {', '.join(lost)}. After a publish, Hive's "
            "readers would lose their values",
            hint=f"sync, if they are new in Hive; drop them there, if they were dropped here: ALTER TABLE "
            f"{table.full_name} REPLACE COLUMNS (…)",
        )


def _list_written_columns(table: HiveTable, followed: SchemaSyncResult) -> Iterator[HiveColumn]:
    """Hive's columns, with types that can hold the table's values. Raises Conflict if Hive would misread them."""
    if waiting := [conflict for conflict in followed.drift.conflicts if conflict.check is not None]:
        raise Conflict(f"{table.full_name} cannot be published while both sides differ: {waiting[0].what}")
    types = {column.name.lower(): column.type for column in followed.drift.readable}
    for column in followed.hive:
        kind = types.get(column.name.lower())
        if kind is not None and not is_prefix_type(parse_type(column.type), parse_type(kind)):
            raise Conflict(
                f"column {column.name} of {table.full_name} is {column.type} in Hive and {kind} here: after a publish, "
                "Hive's readers would lose or confuse fields",
                hint="make the fields on both sides the same, in the same order; new ones come last",
            )
        yield replace(column, type=kind or column.type)
