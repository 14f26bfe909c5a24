"""Syncs one table: detects Hive's changes, classifies partitions, and takes over all that no filter holds back.

For a plain table the server registers and removes files itself. A keyed table gets a job that reads rows, because a
Hive-side load may contain existing keys. Either way the link advances in the transaction of the commit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from catalog.errors import Conflict, NotFound, RequirementFailed, Unavailable
from catalog.hive.decision import group_held
from catalog.hive.drift import DroppedPartition, NewPartition, Rebuild
from catalog.hive.link import Drift, DriftKind
from catalog.hive.model import HiveTable, describe_owner
from catalog.iceberg.json import Json
from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.names import CatalogName
from catalog.planning import Due
from catalog.ports.files import TableFiles
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from server.service.commit.commit_path import Committer
from server.service.commit.commit_target import load_metadata
from server.service.hive.change_set import ChangeSet, SubdirectoryRule
from server.service.hive.detect_changes import detect_changes
from server.service.hive.file_check import FileCheckRunner, SyncClassification
from server.service.hive.file_registration import FileRegistration, Moved
from server.service.hive.hive_state import (
    HiveState,
    LinkedTable,
    explain_busy,
    find_linked_relation,
    load_linked_table,
    read_state,
    split_name,
)
from server.service.hive.link_state import advance, note_drift
from server.service.hive.publish_locations import get_publish_directory
from server.service.hive.repoint import Repointer
from server.service.hive.results import SyncOutcome, SyncResult
from server.service.hive.schema_sync import LinkBroken, SchemaSync, SchemaSyncResult
from server.service.hive.sync_plan import AcceptedChanges, build_sync_plan, next_checkpoint
from server.service.hive.table_index import HiveIndex
from server.service.jobs.admission import check_not_blocked
from server.service.jobs.job_queue import make_job
from server.service.locations.location_rule import find_hive_tables_inside
from server.service.planning.planner import load_facts, load_past_jobs
from server.service.tables.metadata_files import MetadataFiles

MAX_ROUNDS = 3
NOTHING = "nothing changed"
_GONE = (
    "nothing was changed here. If it was renamed: rename it back, or upgrade it under its new name; changes that were "
    "not published are here alone"
)


class MetastoreAway(Unavailable):
    """The metastore does not answer. That is no problem of a single table, so no table gets a note."""


@contextmanager
def _calling_metastore() -> Iterator[None]:
    """Raise MetastoreAway where a call of the metastore raises Unavailable."""
    try:
        yield
    except Unavailable as error:
        raise MetastoreAway(error.message, hint=error.hint) from error


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
    """Syncs a table. A crash at any point is safe."""

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

    def sync_hive_table(
        self, catalog: CatalogName, full_name: str, *, everything: bool = False, only_schema: bool = False
    ) -> SyncResult:
        """Compare a table with its Hive table and take over the changes; `everything` lists every directory.

        With `only_schema` the sync compares only columns. Raises NotFound if no table is linked to the Hive table,
        Unavailable if the metastore or the storage does not answer.
        """
        with self.database.reading() as uow:
            relation = find_linked_relation(uow, catalog, full_name)
        return self.sync(relation, everything=everything, only_schema=only_schema, may_leave=everything)

    def sync(
        self, relation: Relation, *, everything: bool, only_schema: bool = False, may_leave: bool = False
    ) -> SyncResult:
        """Take over Hive's changes; `everything` lists every directory, `only_schema` none."""
        everything = everything or self._has_failed(relation)
        for _ in range(MAX_ROUNDS):
            try:
                return self._sync_once(relation, everything=everything, only_schema=only_schema, may_leave=may_leave)
            except Moved:
                continue
        return build_waiting_result(relation, "others change the table faster than it can be compared")

    def _has_failed(self, relation: Relation) -> bool:
        """Whether the last sync job failed. Files that it needed may be gone without any signal."""
        with self.database.reading() as uow:
            past = [job for job in load_past_jobs(uow, relation.id) if job.kind is JobKind.SYNC]
        return bool(past) and past[0].status is JobStatus.FAILED

    def _sync_once(self, relation: Relation, *, everything: bool, only_schema: bool, may_leave: bool) -> SyncResult:
        """Sync. Raises Moved if another commit came first."""
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
        """Finish open publishes, read both sides, and align their columns; or return why the sync waits."""
        with self.database.reading() as uow:
            busy = uow.jobs.active_of(relation.id)
        if busy is not None:
            return _build_busy_result(relation, busy)
        if (waits_for := self._finish_publishes(relation)) is not None:
            return build_waiting_result(relation, waits_for)
        with self.database.reading() as uow:
            linked = load_linked_table(uow, uow.relations.get(relation.id))
        if linked.busy is not None:
            return _build_busy_result(relation, linked.busy)
        if linked.has_open_publish:
            raise Moved
        full_name = relation.hive_name or ""
        try:
            with _calling_metastore():
                state = read_state(self.index.metastore(relation.catalog), *split_name(full_name))
        except NotFound:
            return self._conflict(relation, f"the Hive table {full_name} is gone; {_GONE}")
        try:
            return InStep(state=state, columns=self.columns.follow(linked, state.table))
        except LinkBroken as error:
            return self._conflict(relation, error.message, state.table)

    def _finish_publishes(self, relation: Relation) -> str | None:
        """End each open publish: Hive may differ from the baseline only because of it. Return why one waits.

        Raises Moved if it ended any: then the link and Hive are read anew.
        """
        with _calling_metastore():
            still_open = self.repointer.finish(relation)
        if not still_open.has_any:
            return None
        if self.repointer.still_waits(relation, still_open):
            return still_open.why_left
        if still_open.remaining:
            self.repointer.give_up(relation)
        raise Moved

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
                return build_waiting_result(linked.relation, waiting[0])
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
        try:
            self.repointer.owners.check_no_other(state.table, linked.relation.id)
        except Conflict as error:
            return self._conflict(linked.relation, f"{error.message}. {error.hint}", state.table)
        locations = {name: changes.units[name].place for name in changes.overwritten}
        busy = self.repointer.point_back(linked.relation, state.table, locations, changes.overwritten)
        if busy:
            return build_waiting_result(linked.relation, explain_busy(busy))
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
            return build_waiting_result(linked.relation, broken[0])
        job = self._queue(linked, detected.state, accepted, detected.base, sentence)
        if job is None:
            return build_waiting_result(linked.relation, "another job came first")
        return replace(
            _result(linked.relation, SyncOutcome.PLANNED, sentence, conflict=changes.trouble is not None), job=job
        )

    def _queue(
        self, linked: LinkedTable, state: HiveState, accepted: AcceptedChanges, base: Json, reason: str
    ) -> Job | None:
        """Queue a sync job with its plan; None if another job or sync came first."""
        if accepted.changes.rebuilds and linked.is_published:
            accepted = accepted.with_differing(linked, state, self.files.live_files(base))
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


def build_waiting_result(relation: Relation, message: str) -> SyncResult:
    """The result of a sync that a later one has to do."""
    return _result(relation, SyncOutcome.WAITING, message)


def _build_busy_result(relation: Relation, busy: Job) -> SyncResult:
    return build_waiting_result(relation, f"a {busy.kind} job is {busy.status}")


def _build_settled_result(relation: Relation, altered: Sequence[str], trouble: str | None) -> SyncResult:
    """The result if the sync altered only columns or nothing; a user has to resolve `trouble`."""
    if not altered and trouble is None:
        return _result(relation, SyncOutcome.UNCHANGED, NOTHING)
    message = "; ".join([*altered, *([trouble] if trouble else [])])
    outcome = SyncOutcome.SYNCED if altered else SyncOutcome.CONFLICT
    return _result(relation, outcome, message, conflict=trouble is not None)
