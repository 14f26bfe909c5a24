"""Syncs one table once: detects Hive's changes, classifies partitions, and takes over all that no filter holds back.

For a plain table the server registers and removes files itself. A keyed table gets a job that reads rows, because a
Hive-side load may contain existing keys. Either way the link advances in the transaction of the commit.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from catalog.errors import AlreadyExists, Conflict, NotFound, RequirementFailed, Unavailable
from catalog.hive.baseline import PartitionBaseline
from catalog.hive.decision import group_held
from catalog.hive.drift import DroppedPartition, NewPartition, Rebuild
from catalog.hive.link import Drift, DriftKind
from catalog.hive.model import HiveTable, describe_owner
from catalog.hive.partition_names import to_partition_records
from catalog.hive.publishing import compare_partitions
from catalog.iceberg.json import Json
from catalog.jobs.job import Job, JobKind
from catalog.planning import Due
from catalog.ports.files import TableFiles
from catalog.ports.metastore import PartitionLocation
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from server.service.commit.commit_path import Committer
from server.service.commit.commit_target import load_metadata
from server.service.hive.change_set import ChangeSet, SubdirectoryRule
from server.service.hive.detect_changes import detect_changes
from server.service.hive.file_check import FileCheckRunner, SyncClassification
from server.service.hive.file_registration import FileRegistration, Moved
from server.service.hive.hive_state import HiveState, explain_busy, read_state, split_name
from server.service.hive.link_state import LinkedTable, advance, load_linked_table, note_drift
from server.service.hive.publish_locations import get_publish_directory
from server.service.hive.publisher import advise_on_publisher, explain_other_publisher
from server.service.hive.repoint import Repointer
from server.service.hive.results import SyncOutcome, SyncResult
from server.service.hive.schema_sync import LinkBroken, SchemaSync, SchemaSyncResult
from server.service.hive.sync_plan import AcceptedChanges, build_sync_plan, next_checkpoint
from server.service.hive.table_index import HiveIndex
from server.service.jobs.admission import check_not_blocked
from server.service.jobs.job_queue import make_job
from server.service.locations.location_rule import find_hive_tables_inside
from server.service.planning.planner import load_facts
from server.service.tables.metadata_files import MetadataFiles

NOTHING = "nothing changed"
_GONE = (
    "nothing was changed here. If it was renamed: rename it back, or upgrade it under its new name; changes that were "
    "not published are here alone"
)


class MetastoreAway(Unavailable):
    """The metastore does not answer. That is no problem of a single table, so no table gets a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InStep:
    """A linked table after the comparison of columns."""

    state: HiveState
    columns: SchemaSyncResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """The changes of Hive's side to a table."""

    linked: LinkedTable
    state: HiveState
    """The state of Hive, with column types that can hold the table's values."""
    columns: SchemaSyncResult
    changes: ChangeSet
    base: Json
    """The metadata of the table, or of its base store."""


@dataclass(frozen=True)
class SyncPlanner:
    """Syncs a table once. A crash at any point is safe. Raises Moved if another commit came first."""

    database: Database
    metadata: MetadataFiles
    committer: Committer
    index: HiveIndex
    files: TableFiles
    repointer: Repointer

    @property
    def columns(self) -> SchemaSync:
        """The sync of columns, of which a table's sync is the second half."""
        return SchemaSync(self.database, self.metadata, self.committer, self.index, self.files)

    def sync(self, relation: Relation, *, everything: bool, only_schema: bool, may_leave: bool) -> SyncResult:
        """Take over Hive's changes; `everything` lists every directory, `only_schema` none."""
        in_step = self._align_schema(relation)
        if isinstance(in_step, SyncResult):
            return in_step
        if only_schema:
            return _build_settled_result(relation, in_step.columns.changes, in_step.columns.trouble)
        detected = self._detect(in_step, everything=everything, may_leave=may_leave)
        classified = self._classify(detected)
        result = self._apply(detected, classified)
        return replace(result, held_back=group_held(classified.decisions))

    def _align_schema(self, relation: Relation) -> InStep | SyncResult:
        """Finish open publishes, read the metastore, and align the columns; or return why the sync waits."""
        with self.database.reading() as uow:
            linked = load_linked_table(uow, uow.relations.get(relation.id))
        if linked.busy is not None:
            return _result(relation, SyncOutcome.WAITING, f"a {linked.busy.kind} job is {linked.busy.status}")
        full_name = relation.hive_name or ""
        try:
            open_still = self.repointer.finish(relation)
            if open_still.has_any:
                if self.repointer.still_waits(relation, open_still):
                    return _result(relation, SyncOutcome.WAITING, open_still.why_left)
                if open_still.remaining:
                    self.repointer.give_up(relation)
                raise Moved
            state = read_state(self.index.metastore(relation.catalog), *split_name(full_name))
        except Unavailable as error:
            raise MetastoreAway(error.message, hint=error.hint) from error
        except NotFound:
            return self._conflict(relation, f"the Hive table {full_name} is gone; {_GONE}")
        try:
            return InStep(state=state, columns=self.columns.follow(linked, state.table))
        except LinkBroken as error:
            return self._conflict(relation, error.message, state.table)

    def _detect(self, in_step: InStep, *, everything: bool, may_leave: bool) -> Detected:
        """Compare partitions and files with the baselines."""
        state, columns, linked = in_step.state, in_step.columns, in_step.columns.linked
        relation = linked.relation
        with self.database.reading() as uow:
            own_places = uow.catalogs.get(relation.catalog).warehouse, get_publish_directory(uow, relation)
            other_tables = _find_other_tables(uow, linked, state)
        linked = _follow_hive_locations(linked, state)
        rule = SubdirectoryRule(
            subdirectories=linked.subdirectories, may_leave=may_leave, own_places=own_places, foreign=other_tables
        )
        changes = detect_changes(
            state,
            linked.baselines,
            self.files,
            everything=everything,
            grace=linked.when,
            rule=rule,
            published_through=linked.published_through,
        )
        changes = replace(_read_again(changes, linked), differs=columns.trouble, differs_in=columns.drift_kind)
        table = replace(state.table, storage=replace(state.table.storage, columns=columns.drift.readable))
        base = load_metadata(self.metadata, linked.target)
        return Detected(
            linked=linked,
            state=replace(state, table=table),
            columns=columns,
            changes=replace(changes, lost_late=self._list_lost_partitions(linked, changes, base)),
            base=base,
        )

    def _classify(self, detected: Detected) -> SyncClassification:
        """Hold back partitions with files that a sync cannot take over."""
        check = FileCheckRunner(self.files, detected.linked, detected.state, detected.base)
        return check.classify(detected.changes, detected.columns.drift.checks)

    def _apply(self, detected: Detected, classified: SyncClassification) -> SyncResult:
        linked, state, changes = detected.linked, detected.state, classified.changes
        altered, held = list(detected.columns.changes), [changes.trouble] if changes.trouble else []
        if changes.overwritten and not changes.rebuilds:
            return self._point_back(linked, state, changes)
        if changes.is_all_quiet:
            self._advance_alone(linked, state, changes)
            waiting = [*(decision.reason for decision in changes.postponed.values()), *changes.young.values()]
            if waiting and not (altered or held):
                return _result(linked.relation, SyncOutcome.WAITING, waiting[0])
            return _build_settled_result(linked.relation, altered, changes.trouble)
        sentence = "; ".join([*altered, changes.sentence or "", *held])
        if linked.is_keyed and (changes.rebuilds or not (linked.trusts and changes.changed)):
            return self._plan_job(detected, changes, sentence)
        try:
            FileRegistration(self.database, self.committer, self.files).register(
                linked, state, classified, detected.base
            )
        except RequirementFailed as error:
            sentence = (
                f"Hive changed files that were changed here too: {error.message}; "
                "with firn.hive.overwrite-wins=true such partitions become what Hive lists"
            )
            return self._conflict(linked.relation, sentence, state.table)
        return _result(linked.relation, SyncOutcome.SYNCED, sentence, conflict=bool(held))

    def _list_lost_partitions(self, linked: LinkedTable, changes: ChangeSet, base: Json) -> frozenset[str]:
        """The files of late writers that a plain table contains and that these writers have deleted."""
        if linked.is_keyed or not changes.lost_late:
            return frozenset()
        return changes.lost_late & {file.location for file in self.files.live_files(base)}

    def _point_back(self, linked: LinkedTable, state: HiveState, changes: ChangeSet) -> SyncResult:
        """Repoint the metastore to a superseded directory that a writer has overwritten: Hive then sees the new rows.

        Raises Moved: the next comparison finds the partition there, overwritten.
        """
        if (other := self.repointer.owners.other(state.table, linked.relation.id)) is not None:
            return self._conflict(
                linked.relation,
                f"{explain_other_publisher(state.table, other)}. {advise_on_publisher(state.table)}",
                state.table,
            )
        metastore, table = self.index.metastore(linked.relation.catalog), state.table
        with metastore.lock(table.database, table.name, [*changes.overwritten], wait=False) as lock:
            for name, location in changes.overwritten.items():
                if name in lock.busy:
                    continue
                unit = changes.units[name]
                with suppress(Conflict, AlreadyExists):
                    metastore.move(
                        table.database,
                        table.name,
                        PartitionLocation(values=unit.values, location=unit.location),
                        location,
                        {},
                    )
        if lock.busy:
            return _result(linked.relation, SyncOutcome.WAITING, explain_busy(lock.busy))
        raise Moved

    def _conflict(self, relation: Relation, sentence: str, table: HiveTable | None = None) -> SyncResult:
        """Note the conflict, and leave both sides as they are."""
        with self.database.writing() as uow:
            author = None if table is None else describe_owner(table)
            note_drift(uow, relation.id, Drift(kind=DriftKind.TABLE, message=sentence, likely_author=author))
        return _result(relation, SyncOutcome.CONFLICT, sentence, conflict=True)

    def _advance_alone(self, linked: LinkedTable, state: HiveState, changes: ChangeSet) -> None:
        """Advance the link of a sync that takes over nothing."""
        with self.database.writing() as uow:
            try:
                advance(uow, linked.relation.id, next_checkpoint(linked, state, changes, {}))
            except RequirementFailed as error:
                raise Moved from error

    def _plan_job(self, detected: Detected, changes: ChangeSet, sentence: str) -> SyncResult:
        """Plan a job. Rebuilds come first and alone: added files are newer than all changes, a rebuild is older.

        A running overwrite of a partition delays rebuilds, because base's files in it may be gone already.
        """
        linked = detected.linked
        accepted = AcceptedChanges(
            changes=changes,
            changed=changes.rebuilds or changes.changed,
            late=() if changes.rebuilds else tuple(changes.late),
        )
        broken = [decision.reason for unit, decision in changes.postponed.items() if unit in linked.baselines]
        if changes.rebuilds and broken:
            return _result(linked.relation, SyncOutcome.WAITING, broken[0])
        job = self._queue(linked, detected.state, accepted, detected.base, sentence)
        if job is None:
            return _result(linked.relation, SyncOutcome.WAITING, "another job came first")
        return replace(
            _result(linked.relation, SyncOutcome.PLANNED, sentence, conflict=changes.trouble is not None), job=job
        )

    def _queue(
        self, linked: LinkedTable, state: HiveState, accepted: AcceptedChanges, base: Json, reason: str
    ) -> Job | None:
        """Queue a sync job with its plan; None if another job or sync came first."""
        if accepted.changes.rebuilds and linked.is_published:
            accepted = replace(accepted, again=self._check_differences(linked, state, base, accepted))
        plan = build_sync_plan(linked, state, accepted, base)
        with self.database.writing() as uow:
            if load_linked_table(uow, linked.relation).link.generation != plan.checkpoint.since:
                return None
            facts = load_facts(uow, linked.relation)
            check_not_blocked(uow, linked.relation.id, JobKind.SYNC)
            due = Due(kind=JobKind.SYNC, reason=reason, state=f"sync {plan.checkpoint.generation}")
            job = make_job(linked.relation, due, facts, uow.now())
            if not uow.relations.lock_existing([linked.relation.id]) or not uow.jobs.add(
                job
            ):  # dropped, or another one came
                return None
            uow.baselines.stage(job.id, plan)
        return job

    def _check_differences(
        self, linked: LinkedTable, state: HiveState, base: Json, accepted: AcceptedChanges
    ) -> dict[str, PartitionBaseline]:
        """Find partitions in which base no longer consists of the files that Hive lists.

        A row there may have lost its key to a row that vanishes now. Without it, a publish would remove the row from
        Hive. So the rebuild reads it from Hive's files.
        """
        columns = state.table.partition_columns
        baselines = {name: baseline for name, baseline in linked.baselines.items() if name in accepted.changes.units}
        differing = compare_partitions(
            self.files.live_files(base), baselines, to_partition_records(columns, baselines)
        ).differing
        return {name: baselines[name] for name in differing.keys() - accepted.changed.keys()}


def _find_other_tables(uow: UnitOfWork, linked: LinkedTable, state: HiveState) -> tuple[str, ...]:
    """Find directories that Hive names since the last sync and that belong to other tables of Firn.

    Otherwise a user who may set a location in Hive could read another table's files with the server's rights.
    """
    baselines = linked.baselines
    new = [unit for unit in state.units if unit.name not in baselines or baselines[unit.name].location != unit.location]
    catalog, full_name = linked.relation.catalog, state.table.full_name
    return tuple(find_hive_tables_inside(uow, catalog, full_name, state.directories_of(new), below=False))


def _read_again(changes: ChangeSet, linked: LinkedTable) -> ChangeSet:
    """Add the partitions to rebuild because a column came back that their rows have lost."""
    waiting = changes.held.keys() | changes.postponed.keys()
    again = {
        name: Rebuild(
            reason="a column came back", files=baseline.files, added=(), removed=(), baseline=linked.baselines[name]
        )
        for name in linked.link.read_again
        if (baseline := linked.baselines.get(name)) is not None and name in changes.units.keys() - waiting
    }
    kept = {
        name: change
        for name, change in changes.changed.items()
        if isinstance(change, NewPartition | Rebuild | DroppedPartition)
    }
    return replace(changes, changed={**changes.changed, **again, **kept})


def _follow_hive_locations(linked: LinkedTable, state: HiveState) -> LinkedTable:
    """The link, with each partition that the metastore points at a superseded directory back there (docs/protocols.md,
    rule 3.6).
    """
    now = time.time_ns()
    at = {unit.name: unit.location for unit in state.units}
    baselines = {
        name: baseline.return_to(at[name], now) if name in at else baseline
        for name, baseline in linked.baselines.items()
    }
    return replace(linked, baselines=baselines)


def _result(relation: Relation, outcome: SyncOutcome, message: str, *, conflict: bool = False) -> SyncResult:
    return SyncResult(table=str(relation.name), outcome=outcome, message=message, conflict=conflict)


def _build_settled_result(relation: Relation, altered: Sequence[str], trouble: str | None) -> SyncResult:
    """The result if the sync altered only columns or nothing; a user has to resolve `trouble`."""
    if not altered and trouble is None:
        return _result(relation, SyncOutcome.UNCHANGED, NOTHING)
    message = "; ".join([*altered, *([trouble] if trouble else [])])
    outcome = SyncOutcome.SYNCED if altered else SyncOutcome.CONFLICT
    return _result(relation, outcome, message, conflict=trouble is not None)
