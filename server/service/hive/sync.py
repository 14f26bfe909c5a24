"""Sync: what Hive-side writers did to a linked table becomes a new snapshot (docs/protocols.md#hive-sync-and-publish).

A plain table is synced here, by registering and removing files. A keyed table gets a sync job: rows have to be read,
because a Hive-side load may bring keys that exist. Either way the ground advances in the commit's own transaction.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from catalog.errors import (
    AlreadyExists,
    CatalogError,
    CommitUnknown,
    Conflict,
    NotFound,
    RequirementFailed,
    Unavailable,
)
from catalog.hive.baseline import PartitionBaseline
from catalog.hive.checkpoint import SyncPlan
from catalog.hive.drift import DroppedPartition, NewPartition, Rebuild
from catalog.hive.link import Drift, DriftKind
from catalog.hive.model import HiveTable, describe_owner
from catalog.hive.partition_names import to_partition_records
from catalog.hive.publishing import compare_partitions
from catalog.iceberg.json import Json
from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.names import CatalogName
from catalog.planning import Due, find_failure_backoff
from catalog.ports.files import TableFiles
from catalog.ports.metastore import PartitionLocation
from catalog.ports.store import Database
from catalog.tables.relation import Relation, RelationKind
from server.service.commit.commit_path import Committer
from server.service.commit.commit_target import load_metadata
from server.service.hive.detect_changes import ChangeSet, SubdirectoryRule, detect_changes, explain_unfit
from server.service.hive.file_check import FileCheckRunner, ReadableFiles
from server.service.hive.file_registration import FileRegistration, Moved
from server.service.hive.hive_state import HiveState, read_state, split_name
from server.service.hive.link_state import (
    LinkedTable,
    advance,
    is_due,
    is_sweep_due,
    load_linked_table,
    next_checkpoint,
    note_drift,
)
from server.service.hive.other_tables import find_other_tables
from server.service.hive.publish_locations import get_publish_directory
from server.service.hive.publisher import advise_on_publisher, explain_other_publisher
from server.service.hive.repoint import Repointer
from server.service.hive.results import SyncOutcome, SyncResult
from server.service.hive.schema_sync import SchemaSync, SchemaSyncResult
from server.service.hive.sync_hints import Hints
from server.service.hive.sync_task import Taken, build_sync_task
from server.service.hive.table_index import HiveIndex
from server.service.hive.table_lock import explain_busy
from server.service.jobs.admission import check_not_blocked, find_blocker
from server.service.jobs.job_queue import make_job
from server.service.planning.planner import load_facts, load_past_jobs
from server.service.tables.metadata_files import MetadataFiles

log = logging.getLogger(__name__)

NOTHING = "nothing changed"
MAX_ROUNDS = 3
_GONE = (
    "nothing was changed here. If it was renamed: rename it back, or upgrade it under its new name; changes that were "
    "not published are here alone"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStatus:
    """What one round over all linked tables did."""

    looked_at: int = 0
    changed: int = 0
    conflicts: int = 0
    unavailable: int = 0


class MetastoreAway(Unavailable):
    """The metastore does not answer: no table's own trouble, so none is marked for it."""


@dataclass(frozen=True)
class Syncs:
    """Syncs linked tables, on schedule and on request; safe to run at any time, any number of times."""

    database: Database
    metadata: MetadataFiles
    committer: Committer
    index: HiveIndex
    files: TableFiles
    repointer: Repointer
    hints: Hints = field(default_factory=Hints)

    @property
    def columns(self) -> SchemaSync:
        """What becomes of columns."""
        return SchemaSync(self.database, self.metadata, self.committer, self.index, self.files)

    @property
    def registering(self) -> FileRegistration:
        """What becomes of plain tables."""
        return FileRegistration(self.database, self.committer, self.files)

    def activate(self) -> SyncStatus:
        """Sync every linked table whose interval is over or that is hinted at; one that fails holds up no other.

        ExceptionGroup at the end when there were errors that nobody has thought of.
        """
        status, broken, hinted = SyncStatus(), dict[str, Exception](), self.hints.take()
        with self.database.reading() as uow:
            linked = [one for catalog in uow.catalogs.list() for one in uow.relations.linked_to_hive(catalog.name)]
        for relation in linked:
            try:
                with self.database.reading() as uow:
                    if not is_due(uow, relation, hinted=relation.id in hinted):
                        continue
                    everything = is_sweep_due(uow, relation)
                status = replace(status, looked_at=status.looked_at + 1)
                outcome = self._synced(relation, everything=everything, asked=False)
            except (CatalogError, CommitUnknown) as error:
                status = replace(status, unavailable=status.unavailable + 1)
                if not isinstance(error, MetastoreAway):
                    self._note_failure(relation, error)
                continue
            except Exception as error:  # noqa: BLE001 -- raised below, when the tables after it have had their turn
                broken[f"{relation.catalog}.{relation.name}"] = error
                continue
            if outcome.outcome is not SyncOutcome.UNCHANGED:
                self.hints.add([relation.id], hinted.get(relation.id, 0) - 1)
            changed = status.changed + outcome.changed
            status = replace(status, changed=changed, conflicts=status.conflicts + outcome.conflict)
        if broken:
            raise ExceptionGroup(f"could not sync {', '.join(broken)}", list(broken.values()))
        return status

    def _note_failure(self, relation: Relation, error: CatalogError | CommitUnknown) -> None:
        """Let people know; the next sync goes by what it finds, whatever has landed."""
        try:
            with self.database.writing() as uow:
                note_drift(uow, relation.id, Drift(kind=DriftKind.SYNC, message=f"the last sync failed: {error}"))
        except (CatalogError, CommitUnknown) as unwritten:
            log.warning("%s: %s; which could not be noted: %s", relation.name, error, unwritten)

    def sync(
        self, catalog: CatalogName, full_name: str, *, everything: bool = False, only_schema: bool = False
    ) -> SyncResult:
        """Compare a table with its Hive table and take over what has changed; `everything` lists every directory.

        With `only_schema` the columns are all that is looked at.
        NotFound when no table is linked to that Hive table, Unavailable when the metastore or the files do not answer.
        """
        wanted = ".".join(split_name(full_name))
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            relation = uow.relations.of_hive(catalog, wanted)
        if relation is None:
            raise NotFound(
                f"{catalog} has no table over {wanted}: a Hive table is synced once it is upgraded",
                hint=f"upgrade it: firn hive upgrade {wanted}",
            )
        return self._synced(relation, everything=everything, only_schema=only_schema, may_leave=everything)

    def _synced(
        self,
        relation: Relation,
        *,
        everything: bool = False,
        asked: bool = True,
        only_schema: bool = False,
        may_leave: bool = False,
    ) -> SyncResult:
        """`asked` is whether a person wants it now: the schedule backs off after failures."""
        if not asked and (reason := self._held_back(relation)):
            return _result(relation, SyncOutcome.WAITING, reason)
        everything = everything or self._has_failed(relation)
        for _ in range(MAX_ROUNDS):
            try:
                return self._round(relation, everything=everything, only_schema=only_schema, may_leave=may_leave)
            except Moved:
                continue
        return _result(relation, SyncOutcome.WAITING, "others change the table faster than it can be compared")

    def _has_failed(self, relation: Relation) -> bool:
        """Whether the last job did: files that it needed may have gone where no signal tells of it."""
        with self.database.reading() as uow:
            past = [job for job in load_past_jobs(uow, relation.id) if job.kind is JobKind.SYNC]
        return bool(past) and past[0].status is JobStatus.FAILED

    def _held_back(self, relation: Relation) -> str | None:
        """Why the schedule passes the table over, and lets people know: for a keyed one a sync is a job."""
        with self.database.reading() as uow:
            held = find_failure_backoff(JobKind.SYNC, load_past_jobs(uow, relation.id), uow.now())
            blocker = find_blocker(uow, relation.id, JobKind.SYNC) if relation.kind is RelationKind.KEYED else None
        if held is None and blocker is None:
            return None
        reason = held.reason if held is not None else f"the table is {blocker}"
        with self.database.writing() as uow:
            note_drift(uow, relation.id, Drift(kind=DriftKind.SYNC, message=reason))
        return reason

    def _round(self, relation: Relation, *, everything: bool, only_schema: bool, may_leave: bool) -> SyncResult:
        with self.database.reading() as uow:
            linked = load_linked_table(uow, uow.relations.get(relation.id))
        if linked.busy is not None:
            return _result(relation, SyncOutcome.WAITING, f"a {linked.busy.kind} job is {linked.busy.status}")
        full_name = relation.hive_name or ""
        try:
            if any(baseline.publishing for baseline in linked.baselines.values()):
                open_still = self.repointer.finish(relation)
                if self.repointer.still_waits(relation, open_still):
                    return _result(relation, SyncOutcome.WAITING, open_still.why_left)
                if open_still.remaining:
                    self.repointer.give_up(relation)
                raise Moved
            state = read_state(self.index.metastore(relation.catalog), *split_name(full_name))
        except Unavailable as error:
            raise MetastoreAway(error.message, hint=error.hint) from error
        except NotFound:
            return self._conflict(linked, f"the Hive table {full_name} is gone; {_GONE}")
        if unfit := explain_unfit(linked.link, state.table):
            return self._conflict(linked, unfit, state.table)
        followed = self.columns.follow(linked, state.table)
        if only_schema:
            return _settled(relation, followed.changes, followed.trouble)
        return self._taken_over(relation, state, followed, everything=everything, may_leave=may_leave)

    def _taken_over(
        self, relation: Relation, state: HiveState, followed: SchemaSyncResult, *, everything: bool, may_leave: bool
    ) -> SyncResult:
        """Look at partitions and files, and take over what has changed."""
        with self.database.reading() as uow:
            linked = load_linked_table(uow, uow.relations.get(relation.id))
            own_places = uow.catalogs.get(relation.catalog).warehouse, get_publish_directory(uow, relation)
            foreign = find_other_tables(uow, linked, state)
        linked = _as_pointed_at(linked, state)
        found = detect_changes(
            state,
            linked.baselines,
            self.files,
            everything=everything,
            when=linked.when,
            depth=SubdirectoryRule(
                subdirectories=linked.subdirectories, may_leave=may_leave, own_places=own_places, foreign=foreign
            ),
            given=linked.given,
        )
        found = replace(_read_again(found, linked), differs=followed.trouble, differs_in=followed.drift_kind)
        table = replace(state.table, storage=replace(state.table.storage, columns=followed.drift.readable))
        as_read = replace(state, table=table)
        base = load_metadata(self.metadata, linked.target)
        found = replace(found, lost_late=self._lost(linked, found, base))
        readable = FileCheckRunner(self.files, linked, as_read, base).readable(found, followed.drift.checks)
        if readable.found.overwritten and not readable.found.rebuilds:
            return self._gone_back(linked, state, readable.found)
        return self._take_over(linked, as_read, readable, base, list(followed.changes))

    def _lost(self, linked: LinkedTable, found: ChangeSet, base: Json) -> frozenset[str]:
        """Files of late writers that a plain table stands on, and that they have taken away again."""
        if linked.is_keyed or not found.lost_late:
            return frozenset()
        return found.lost_late & {file.location for file in self.files.live_files(base)}

    def _gone_back(self, linked: LinkedTable, state: HiveState, found: ChangeSet) -> SyncResult:
        """A writer has overwritten a directory that it did not know to be old: Hive is to see what it wrote.

        The metastore is pointed there again, and Moved tells that the next look finds the partition there, overwritten.
        """
        if (other := self.repointer.owners.other(state.table, linked.relation.id)) is not None:
            return self._conflict(
                linked,
                f"{explain_other_publisher(state.table, other)}. {advise_on_publisher(state.table)}",
                state.table,
            )
        metastore, table = self.index.metastore(linked.relation.catalog), state.table
        with metastore.lock(table.database, table.name, [*found.overwritten], wait=False) as lock:
            for name, location in found.overwritten.items():
                if name in lock.busy:
                    continue
                unit = found.units[name]
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

    def _take_over(
        self, linked: LinkedTable, state: HiveState, readable: ReadableFiles, base: Json, altered: list[str]
    ) -> SyncResult:
        found = readable.found
        held = [found.trouble] if found.trouble else []
        if found.is_all_quiet:
            self._books_alone(linked, state, found)
            waiting = [*found.postponed.values(), *found.young.values()]
            if waiting and not (altered or held):
                return _result(linked.relation, SyncOutcome.WAITING, waiting[0])
            return _settled(linked.relation, altered, found.trouble)
        sentence = "; ".join([*altered, found.sentence or "", *held])
        if linked.is_keyed and (found.rebuilds or not (linked.trusts and found.changed)):
            return self._take_over_rows(linked, state, found, base, sentence)
        try:
            self.registering.register(linked, state, readable, base)
        except RequirementFailed as error:
            sentence = (
                f"Hive changed files that were changed here too: {error.message}; "
                "with firn.hive.overwrite-wins=true such partitions become what Hive lists"
            )
            return self._conflict(linked, sentence, state.table)
        return _result(linked.relation, SyncOutcome.SYNCED, sentence, conflict=bool(held))

    def _take_over_rows(
        self, linked: LinkedTable, state: HiveState, found: ChangeSet, base: Json, sentence: str
    ) -> SyncResult:
        """Rebuilds first, and alone: what is only added is newer than all changes there are, a rebuild is older.

        A partition that is still being overwritten holds rebuilds up, for base's files in it may be gone already.
        """
        taken = Taken(
            found=found, changed=found.rebuilds or found.changed, late=() if found.rebuilds else tuple(found.late)
        )
        broken = [reason for unit, reason in found.postponed.items() if unit in linked.baselines]
        if found.rebuilds and broken:
            return _result(linked.relation, SyncOutcome.WAITING, broken[0])
        job = self._plan(linked, state, taken, base, sentence)
        if job is None:
            return _result(linked.relation, SyncOutcome.WAITING, "another job came first")
        return replace(
            _result(linked.relation, SyncOutcome.PLANNED, sentence, conflict=found.trouble is not None), job=job
        )

    def _conflict(self, linked: LinkedTable, sentence: str, table: HiveTable | None = None) -> SyncResult:
        """Say what differs and leave both sides as they are."""
        with self.database.writing() as uow:
            author = None if table is None else describe_owner(table)
            note_drift(uow, linked.relation.id, Drift(kind=DriftKind.TABLE, message=sentence, likely_author=author))
        return _result(linked.relation, SyncOutcome.CONFLICT, sentence, conflict=True)

    def _books_alone(self, linked: LinkedTable, state: HiveState, found: ChangeSet) -> None:
        with self.database.writing() as uow:
            try:
                advance(uow, linked.relation.id, next_checkpoint(linked, state, found, {}))
            except RequirementFailed as error:
                raise Moved from error

    def _plan(self, linked: LinkedTable, state: HiveState, taken: Taken, base: Json, reason: str) -> Job | None:
        """A sync job, with what its commit will make of the books; None when another job or sync came first."""
        checkpoint = next_checkpoint(linked, state, taken.found, taken.changed, taken.late)
        if taken.found.rebuilds and linked.is_published:
            taken = replace(taken, again=self._read_again(linked, state, base, taken))
        task = build_sync_task(linked, state, taken, base)
        with self.database.writing() as uow:
            if load_linked_table(uow, linked.relation).link.generation != checkpoint.since:
                return None
            facts = load_facts(uow, linked.relation)
            check_not_blocked(uow, linked.relation.id, JobKind.SYNC)
            due = Due(kind=JobKind.SYNC, reason=reason, state=f"sync {checkpoint.generation}")
            job = make_job(linked.relation, due, facts, uow.now())
            if not uow.relations.held([linked.relation.id]) or not uow.jobs.add(job):  # dropped, or another one came
                return None
            uow.baselines.stage(job.id, SyncPlan(checkpoint=checkpoint, task=task))
        return job

    def _read_again(
        self, linked: LinkedTable, state: HiveState, base: Json, taken: Taken
    ) -> dict[str, PartitionBaseline]:
        """Partitions whose files Hive lists and base does not stand on any more.

        A row of theirs may have lost its key to a row that vanishes now. Publishing base without it would take it from
        Hive, so it is looked for where Hive has it.
        """
        columns = state.table.partition_columns
        baselines = {name: one for name, one in linked.baselines.items() if name in taken.found.units}
        differing = compare_partitions(
            self.files.live_files(base), baselines, to_partition_records(columns, baselines)
        ).differing
        return {name: baselines[name] for name in differing.keys() - taken.changed.keys()}


def _read_again(found: ChangeSet, linked: LinkedTable) -> ChangeSet:
    """With partitions to be built anew because a column came back that rows of theirs have lost."""
    waiting = found.held.keys() | found.postponed.keys()
    again = {
        name: Rebuild(
            reason="a column came back", files=baseline.files, added=(), removed=(), baseline=linked.baselines[name]
        )
        for name in linked.link.read_again
        if (baseline := linked.baselines.get(name)) is not None and name in found.units.keys() - waiting
    }
    kept = {
        name: one for name, one in found.changed.items() if isinstance(one, NewPartition | Rebuild | DroppedPartition)
    }
    return replace(found, changed={**found.changed, **again, **kept})


def _result(relation: Relation, outcome: SyncOutcome, message: str, *, conflict: bool = False) -> SyncResult:
    return SyncResult(table=str(relation.name), outcome=outcome, message=message, conflict=conflict)


def _settled(relation: Relation, altered: Sequence[str], trouble: str | None) -> SyncResult:
    """Once only columns were altered, or nothing; `trouble` is left for somebody to decide or to mend."""
    if not altered and trouble is None:
        return _result(relation, SyncOutcome.UNCHANGED, NOTHING)
    message = "; ".join([*altered, *([trouble] if trouble else [])])
    outcome = SyncOutcome.SYNCED if altered else SyncOutcome.CONFLICT
    return _result(relation, outcome, message, conflict=trouble is not None)


def _as_pointed_at(linked: LinkedTable, state: HiveState) -> LinkedTable:
    """The books, with partitions that the metastore points at a former directory of theirs there
    (docs/protocols.md, rule 3.6).
    """
    now = time.time_ns()
    at = {unit.name: unit.location for unit in state.units}
    baselines = {name: one.back_at(at[name], now) if name in at else one for name, one in linked.baselines.items()}
    return replace(linked, baselines=baselines)
