"""Plans one publish of one table: detect what Hive lacks, classify each partition, and queue a job for the rest.

Everything is planned from files and what the metastore says; an optimizer reads and writes the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from catalog.errors import CommitUnknown, Conflict, RequirementFailed
from catalog.files.data_file import FileFormat
from catalog.hive.baseline import PartitionBaseline, Subdirectories
from catalog.hive.checkpoint import PublishPlan
from catalog.hive.model import HiveColumn, HiveTable
from catalog.hive.partition_names import to_partition_records
from catalog.hive.publish_decisions import (
    UNNAMEABLE,
    Candidate,
    PublishDecisions,
    candidates_of,
    decide,
    explain_never,
    filters_by_link,
    filters_by_look,
    formats_to_write,
    held_back,
    partitions_to_write,
    same_partitions,
)
from catalog.hive.publishing import compare_partitions, fingerprint_files
from catalog.hive.schema_diff import is_beginning
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
from catalog.ports.files import TableFiles
from catalog.ports.store import Database
from catalog.tables.relation import Relation, RelationKind
from server.service.commit.commit_target import load_metadata
from server.service.hive.align_snapshot_schema import SnapshotSchemaAligner
from server.service.hive.detect_changes import explain_unfit
from server.service.hive.file_registration import Moved
from server.service.hive.hive_state import read_some
from server.service.hive.link_state import LinkedTable, load_linked_table, note_all_published, note_published
from server.service.hive.publish_locations import own_place, publish_location
from server.service.hive.repoint import Repointer
from server.service.hive.results import PublishOutcome, PublishResult
from server.service.hive.schema_sync import SchemaSync, SchemaSyncResult
from server.service.hive.sync_task import current_names, told_column, told_values
from server.service.hive.table_index import HiveIndex
from server.service.hive.table_lock import check_lockable
from server.service.hive.unrepresentable import Unrepresentable, find_unrepresentable, forget_unrepresentable
from server.service.jobs.admission import check_not_blocked
from server.service.jobs.job_queue import enqueue, make_job
from server.service.locations.allowed_locations import check_published
from server.service.planning.planner import load_facts
from server.service.tables.metadata_files import MetadataFiles

NOTHING = "nothing to publish"


class Waits(Exception):
    """Something else has to end first; the message says what, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """A table beside what Hive lists of it."""

    linked: LinkedTable
    table: HiveTable
    followed: SchemaSyncResult
    metadata: Json
    candidates: Mapping[str, Candidate]
    lost_since_ns: int
    """Where Hive has lost files after this, it may still be overwriting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    """What is done with each partition."""

    decisions: PublishDecisions
    formats: Mapping[str, FileFormat]
    tried: Mapping[str, str]
    """A digest of what each partition in Avro is written from."""


@dataclass(frozen=True)
class PublishPlanner:
    """Plans publishes; safe to run at any time, any number of times."""

    database: Database
    metadata: MetadataFiles
    index: HiveIndex
    files: TableFiles
    repointer: Repointer
    columns: SchemaSync

    def plan(self, relation: Relation, *, asked: bool) -> PublishResult:
        """A job for what differs, unless nothing does or another job is at work."""
        with self.database.reading() as uow:
            busy = uow.jobs.active_of(relation.id)
        if busy is not None:
            return _under_way(relation, busy, asked=asked)
        try:
            detected = self._detect(relation)
            return self._apply(detected, self._classify(detected), asked=asked)
        except Waits as waits:
            return PublishResult(table=str(relation.name), outcome=PublishOutcome.WAITING, message=str(waits))

    def _detect(self, relation: Relation) -> Detected:
        """Compare the table with what Hive lists, once both sides' columns are in step."""
        if (still_open := self.repointer.finish(relation)).remaining:
            raise Waits(still_open.why_left)
        with self.database.reading() as uow:
            linked, now_ns = load_linked_table(uow, relation), int(uow.now().timestamp() * 1e9)
        table = self.index.table(relation)
        if unfit := explain_unfit(linked.link, table):
            raise Conflict(unfit)
        try:
            followed = self.columns.follow(linked, table, publishing=True)
        except Moved as error:
            raise Waits("a sync came first") from error
        with self.database.reading() as uow:
            linked = load_linked_table(uow, uow.relations.get(relation.id))
        if linked.link.read_again:
            raise Waits("a sync builds partitions anew with a column that came back")
        metadata = load_metadata(self.metadata, linked.target)
        records = to_partition_records(table.partition_columns, linked.baselines)
        comparison = compare_partitions(self.files.live_files(metadata), linked.baselines, records)
        return Detected(
            linked=linked,
            table=table,
            followed=followed,
            metadata=metadata,
            candidates=candidates_of(comparison, table.partition_columns),
            lost_since_ns=now_ns - linked.when.overwrite_ns,
        )

    def _classify(self, detected: Detected) -> Classified:
        """The filters that need a look at Hive are asked only about partitions that all others let through."""
        linked, metadata = detected.linked, detected.metadata
        columns, watermark = detected.table.partition_columns, read_watermark(metadata)
        by_link = filters_by_link(linked.link, linked.baselines, columns, watermark, detected.lost_since_ns)
        early = decide(detected.candidates, by_link)
        free = {name: decision.facts for name, decision in early.items() if not decision.held_by}
        differing = [name for name, candidate in free.items() if candidate.is_in_hive and not candidate.is_same]
        changed = self._changed_by_hive(linked, differing)
        in_hive = self._formats_in_hive(detected, differing)
        formats = formats_to_write(free, in_hive, detected.table.file_format)
        gone = changed - in_hive.keys()  # a sync decides what they are, so no note speaks of them
        known = self._unrepresentable(detected, early, {name: formats[name] for name in formats.keys() - gone})
        late = decide(free, filters_by_look(formats, metadata, known.reason, changed))
        held = {name: decision for name, decision in early.items() if decision.held_by}
        return Classified(decisions=held | late, formats=formats, tried=known.tried)

    def _formats_in_hive(self, detected: Detected, partitions: Sequence[str]) -> dict[str, FileFormat]:
        table, metastore = detected.table, self.index.metastore(detected.linked.relation.catalog)
        state = read_some(metastore, table.database, table.name, partitions)
        return {unit.name: unit.format for unit in state.units}

    def _unrepresentable(
        self, detected: Detected, early: PublishDecisions, formats: Mapping[str, FileFormat]
    ) -> Unrepresentable:
        """What jobs have noted of partitions in Avro; notes that hold no longer are forgotten."""
        linked, metadata = detected.linked, detected.metadata
        differing = {
            name: decision.facts.record
            for name, decision in early.items()
            if not decision.facts.is_same and decision.held_by != UNNAMEABLE
        }
        live, schema_id = self.files.live_files(metadata), metadata["current-schema-id"]
        known = find_unrepresentable(linked.link, live, differing, detected.table, schema_id, formats)
        if known.stale:
            with self.database.writing() as uow:
                forget_unrepresentable(uow, linked.relation.id, known.stale)
        return known

    def _changed_by_hive(self, linked: LinkedTable, differing: Sequence[str]) -> set[str]:
        """Partitions of a plain table that Hive has changed, which no sync has taken over yet, or can.

        Those of a keyed table are rebuilt whatever they were: its publish finds out in time that they have changed.
        """
        if linked.is_keyed or not differing:
            return set()
        baselines = {name: linked.baselines[name] for name in differing}
        return self.repointer.overtaken(linked.relation, baselines, linked.subdirectories)

    def _apply(self, detected: Detected, classified: Classified, *, asked: bool) -> PublishResult:
        """Queue the job, or note that Hive has everything."""
        linked, table = detected.linked, detected.table
        held = held_back(classified.decisions)
        to_write = partitions_to_write(classified.decisions)
        if not to_write:
            self._note_given(linked, detected.metadata, same_partitions(classified.decisions), is_all=not held)
            outcome = PublishOutcome.HELD_BACK if held else PublishOutcome.UP_TO_DATE
            return _result(linked.relation, outcome, NOTHING, classified)
        try:
            metadata = SnapshotSchemaAligner(self.database, self.metadata, self.columns.committer, self.files).readable(
                linked, detected.metadata
            )
        except RequirementFailed as error:
            raise Waits("others have changed the table meanwhile") from error
        plan = self._plan(replace(detected, metadata=metadata), classified)
        check_lockable(self.index.metastore(linked.relation.catalog), table.database, table.name, [*to_write])
        try:
            self.repointer.owners.claim(linked.relation, table)
        except CommitUnknown as error:
            raise Waits(str(error)) from error
        message = f"partitions that differ from what Hive lists: {len(to_write)}"
        job = self._queue(linked, plan, message, asked=asked)
        return replace(_result(linked.relation, PublishOutcome.PUBLISHING, message, classified), job=job)

    def _note_given(self, linked: LinkedTable, metadata: Json, same: tuple[str, ...], *, is_all: bool) -> None:
        with self.database.writing() as uow:
            now = load_linked_table(uow, linked.relation)
            # What a sync has taken over meanwhile, Hive's side may have made without knowing any change.
            if now.link.generation != linked.link.generation:
                return
            note_published(uow, linked, {}, same, read_watermark(metadata))
            if is_all and now.baselines == linked.baselines:
                note_all_published(uow, linked, ref_snapshot_id(metadata, "main"))

    def _plan(self, detected: Detected, classified: Classified) -> PublishPlan:
        """What the job does, and what its commit is judged by."""
        metadata, to_write = detected.metadata, partitions_to_write(classified.decisions)
        head, files = current_snapshot(metadata), None
        if not detected.linked.is_keyed:
            files = fingerprint_files(self.files.live_files(metadata), {*to_write.values()})
        return PublishPlan(
            task=_task(detected, {name: classified.formats[name] for name in to_write}),
            head=ref_snapshot_id(metadata, "main"),
            sequence=0 if head is None else sequence_number(head),
            schema_id=metadata["current-schema-id"],
            through=read_watermark(metadata),
            same=same_partitions(classified.decisions),
            tried=classified.tried,
            files=files,
        )

    def _queue(self, linked: LinkedTable, plan: PublishPlan, reason: str, *, asked: bool) -> Job:
        relation = linked.relation
        with self.database.writing() as uow:
            if load_linked_table(uow, relation).link.generation != linked.link.generation:
                raise Waits("a sync came first")
            check_not_blocked(uow, relation.id, JobKind.PUBLISH)
            due = Due(kind=JobKind.PUBLISH, reason=reason, state=f"publish {linked.link.generation}")
            now = uow.now()
            job = make_job(relation, due, load_facts(uow, relation), now, asked=asked)
            if not enqueue(uow, job, now):
                raise Waits("another job came first")
            root = f"{own_place(uow, relation, _counted(linked))}/{job.id}"
            location = publish_location(uow, relation) or ""
            check_published(uow, self.metadata.files, relation.catalog, {PUBLISH_LOCATION: location})
            uow.baselines.stage(job.id, replace(plan, task={**plan.task, "root": root}))
        return job


def _result(relation: Relation, outcome: PublishOutcome, message: str, classified: Classified) -> PublishResult:
    held = held_back(classified.decisions)
    return PublishResult(
        table=str(relation.name),
        outcome=outcome,
        message="; ".join([message, *(one.message for one in held)]),
        held_back=held,
        never=explain_never(held),
    )


def _under_way(relation: Relation, busy: Job, *, asked: bool) -> PublishResult:
    """The answer while a job works on the table: a publish of a keyed one will do, for no merge has come since."""
    name = str(relation.name)
    if asked and busy.kind is JobKind.PUBLISH and relation.kind is RelationKind.KEYED:
        outcome = PublishOutcome.PUBLISHING
        return PublishResult(table=name, outcome=outcome, message="is being published", job=busy)
    message = f"a {busy.kind} job is {busy.status}"
    return PublishResult(table=name, outcome=PublishOutcome.WAITING, message=message)


def _counted(linked: LinkedTable) -> set[str]:
    """Directories below which every file counts as a partition's."""
    if linked.subdirectories is not Subdirectories.READ:
        return set()
    baselines: list[PartitionBaseline] = [*linked.baselines.values()]
    return {*(one.location for one in baselines), *(one.location for baseline in baselines for one in baseline.watched)}


def _task(detected: Detected, formats: Mapping[str, FileFormat]) -> Json:
    """What the optimizer writes: which partitions of which snapshot, as which columns."""
    linked, table, metadata = detected.linked, detected.table, detected.metadata
    names = current_names(metadata)
    columns = [told_column(column, names) for column in _written(table, detected.followed)]
    partitioned_by = [told_column(column, names) for column in table.partition_columns]
    _check_none_lost(linked.relation, table, [*columns, *partitioned_by])
    told = {column["name"] for column in (*columns, *partitioned_by)}
    head, name = ref_snapshot_id(metadata, "main"), linked.relation.name
    pinned = [*name.as_namespace, name_pinned_view(BASE, head, metadata["current-schema-id"])]
    return {
        "base": pinned if linked.is_keyed else [*name.namespace, name.name],
        "snapshot": None if linked.is_keyed else head,
        "columns": columns,
        "own_columns": [one["name"] for one in current_schema(metadata)["fields"] if one["name"] not in told],
        "partition_columns": partitioned_by,
        "partitions": [
            {"name": name, "values": told_values(table, name), "format": str(one)} for name, one in formats.items()
        ],
    }


def _check_none_lost(relation: Relation, table: HiveTable, columns: list[Json]) -> None:
    lost = [column["hive"] for column in columns if column["name"] is None]
    if lost:
        raise Conflict(
            f"{table.full_name} has columns that {relation.name} has not: {', '.join(lost)}; published, its rows would "
            "lose them for Hive's readers",
            hint=f"sync, if they are new in Hive; drop them there, if they were dropped here: ALTER TABLE "
            f"{table.full_name} REPLACE COLUMNS (…)",
        )


def _written(table: HiveTable, followed: SchemaSyncResult) -> Iterator[HiveColumn]:
    """Hive's columns, by types that hold all that is here; Conflict when its readers would read something else."""
    if waiting := [one for one in followed.drift.conflicts if one.check is not None]:
        raise Conflict(f"{table.full_name} cannot be published while both sides differ: {waiting[0].what}")
    types = {column.name.lower(): column.type for column in followed.drift.readable}
    for column in followed.hive:
        kind = types.get(column.name.lower())
        if kind is not None and not is_beginning(parse_type(column.type), parse_type(kind)):
            raise Conflict(
                f"column {column.name} of {table.full_name} is {column.type} in Hive and {kind} here; published, "
                "its readers would lose fields, or take one for another",
                hint="make the fields on both sides the same, in the same order; new ones come last",
            )
        yield replace(column, type=kind or column.type)
