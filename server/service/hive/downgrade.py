"""Downgrade: the server publishes every change to Hive, then drops the table from the catalog.

A downgrade is an operation without undo. Each step reads the table's present state, so a crash needs no repair. It
syncs, merges and publishes until nothing is left to do. Then it watches the superseded directories until their grace
period ends. One transaction drops the table, and only if the table consists of exactly the files that Hive lists.
Meanwhile the table refuses commits, and a blocker keeps away jobs that would rewrite Hive's files.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from catalog.errors import CatalogError, CommitUnknown, Conflict, NotFound, Unavailable
from catalog.jobs.blocker import LONGEST, Blocker, BlockerId
from catalog.jobs.job import Job, JobId, JobKind, JobStatus
from catalog.jobs.operation import Operation, OperationId, enter_phase
from catalog.names import CatalogName, RelationId
from catalog.planning.trigger_result import format_count
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from firn.protocol.locations import lies_in, normalize_location
from firn.protocol.operations import DowngradePhase, OperationKind, OperationStatus
from server.service.access.caller import caller
from server.service.drop.drop import DropOptions, check_unprotected, drop_relation
from server.service.hive.downgrade_check import DowngradeCheck, DowngradePreview, explain_wait
from server.service.hive.hive_state import LinkedTable, find_linked_relation, load_linked_table, split_name
from server.service.hive.operations import check_unworked
from server.service.hive.publish_locations import get_publish_directory
from server.service.hive.publish_requests import PublishRequests
from server.service.hive.publisher import Publishers
from server.service.hive.results import PublishOutcome, SyncOutcome
from server.service.hive.sync_planner import SyncPlanner
from server.service.hive.upgrade_attempt import Canceled, Overtaken, running
from server.service.jobs.blockers import put_blocker
from server.service.tables.metadata_files import MetadataFiles

log = logging.getLogger(__name__)

SERVING = frozenset({JobKind.SYNC, JobKind.MERGE, JobKind.PUBLISH})
"""Jobs that bring a table nearer to Hive. The downgrade's blocker keeps all other kinds away."""

WATCH_EVERY = timedelta(minutes=1)
"""The interval of checks during the grace period, which lasts a day by default."""

_NAMED = 3
"""The number of writers that a message names."""

_PHASES = {
    JobKind.SYNC: DowngradePhase.SYNCING,
    JobKind.MERGE: DowngradePhase.MERGING,
    JobKind.PUBLISH: DowngradePhase.PUBLISHING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeStatus:
    """The number of downgrades that one activation of the task ended."""

    finished: int = 0
    failed: int = 0


class _NotYet(Exception):
    """The table cannot be dropped yet: a job runs, or only time helps."""

    def __init__(
        self, phase: DowngradePhase, message: str, *, job: Job | None = None, until: datetime | None = None
    ) -> None:
        super().__init__(message)
        self.phase, self.message = phase, message
        self.job = job
        self.until = until


def _wait_for(job: Job, *, is_own: bool) -> _NotYet:
    """An own job is remembered: the downgrade fails if that job fails."""
    phase = _PHASES.get(job.kind, DowngradePhase.WAITING)
    return _NotYet(phase, f"a {job.kind} job is {job.status}", job=job if is_own else None)


@dataclass(frozen=True)
class Downgrades:
    """Starts downgrades and continues them, one step at each activation; any server continues after a crash."""

    database: Database
    metadata: MetadataFiles
    check: DowngradeCheck
    syncs: SyncPlanner
    publish_requests: PublishRequests
    publishers: Publishers

    def start(
        self, catalog: CatalogName, full_name: str, *, wait_for_writers: bool = True, purge: bool = False
    ) -> Operation:
        """Start a downgrade. From now on the table accepts only changes of Hive.

        With `wait_for_writers` it waits for Hive jobs that started before the last publish. With `purge` the server
        deletes Firn's own files once the retention of the dropped table ends. Raises NotFound if no table is linked to
        the Hive table; Protected if its owner forbids the drop; Conflict while another operation works on it, or if
        Hive cannot represent some of its changes.
        """
        target = ".".join(split_name(full_name))
        with self.database.reading() as uow:
            relation = find_linked_relation(uow, catalog, target)
        self._refuse_blocked(relation)
        with self.database.writing() as uow:
            relation = find_linked_relation(uow, catalog, target)
            check_unworked(uow, catalog, target)
            check_unprotected(uow, self.metadata, [relation, *uow.relations.stores_of(relation.id)])
            now = uow.now()
            blocker = _blocker(relation, now)
            operation = Operation(
                id=OperationId(uuid4()),
                kind=OperationKind.DOWNGRADE,
                catalog=catalog,
                target=target,
                status=OperationStatus.RUNNING,
                created_at=now,
                updated_at=now,
                params={"relation": str(relation.id), "wait_for_writers": wait_for_writers, "purge": purge},
                journal={"blocker": str(blocker.id)},
                phase=DowngradePhase.WAITING,
                unit="partitions",
            )
            uow.operations.add(operation)
            uow.baselines.give_back(relation.id, operation.id)
            put_blocker(uow, blocker, now)
        return operation

    def preview(self, catalog: CatalogName, full_name: str) -> DowngradePreview:
        """See `DowngradeCheck.preview`."""
        return self.check.preview(catalog, ".".join(split_name(full_name)))

    def _refuse_blocked(self, relation: Relation) -> None:
        """Conflict for a downgrade that would never end. Without the metastore the first step asks again."""
        with suppress(Unavailable, NotFound):
            if (blocked := self.check.compare(relation).blocked) is not None:
                raise Conflict(f"Hive cannot represent every change: {blocked}")

    def activate(self) -> DowngradeStatus:
        """Take one step of each downgrade; a downgrade that cannot continue stops no other.

        ExceptionGroup at the end with the unexpected errors.
        """
        status, broken = DowngradeStatus(), dict[str, Exception]()
        with self.database.reading() as uow:
            unfinished = uow.operations.unfinished()
        for operation in unfinished:
            if operation.kind is not OperationKind.DOWNGRADE:
                continue
            try:
                succeeded = self._step_or_end(operation)
            except Exception as error:  # noqa: BLE001 -- raised below, after the other downgrades had their step
                broken[f"{operation.catalog}.{operation.target}"] = error
                continue
            if succeeded is not None:
                counts = {"finished": status.finished + succeeded, "failed": status.failed + (not succeeded)}
                status = replace(status, **counts)
        if broken:
            raise ExceptionGroup(f"could not go on with {', '.join(broken)}", list(broken.values()))
        return status

    def _step_or_end(self, operation: Operation) -> bool | None:
        """Return whether the downgrade succeeded; None while it goes on."""
        try:
            return self._step_or_wait(operation)
        except Overtaken:
            return None
        except Canceled:
            self._end(operation, OperationStatus.CANCELED, "canceled", "the table takes changes again")
            return False
        except CatalogError as error:
            if self._has_active_job(operation):  # another job started after this step looked at the table
                return None
            self._end(operation, OperationStatus.FAILED, error.message, error.hint)
            return False

    def _step_or_wait(self, operation: Operation) -> bool | None:
        try:
            self._step(operation)
        except _NotYet as progress:
            self._note(operation, progress)
            return None
        except (Unavailable, CommitUnknown) as error:  # the next step sees what has landed
            self._note(operation, _NotYet(DowngradePhase.WAITING, str(error)))
            return None
        return True

    def _has_active_job(self, operation: Operation) -> bool:
        with self.database.reading() as uow:
            return uow.jobs.active_of(_relation_id(operation)) is not None

    def _step(self, operation: Operation) -> None:
        """Request the next piece of work unless one runs; in this order each round leaves less to do."""
        relation = self._load_idle_table(operation)
        self._sync(operation)
        self._publish(operation)
        self._check_droppable(operation, relation)
        swept = self.syncs.sync_hive_table(operation.catalog, operation.target, everything=True)
        if swept.outcome is not SyncOutcome.UNCHANGED:
            raise _NotYet(DowngradePhase.SYNCING, swept.message)
        linked = self._check_droppable(operation, relation)
        self.publishers.release(relation)  # if the last step does not come, the next publish marks the table again
        self._drop(operation, linked)

    def _sync(self, operation: Operation) -> None:
        synced = self.syncs.sync_hive_table(operation.catalog, operation.target)
        if synced.conflict:
            raise Conflict(
                f"Hive and the table differ in a way that needs a decision: {synced.message}",
                hint="fix the problem that it names, sync the table, and downgrade it again",
            )
        if synced.job is not None:
            raise _wait_for(synced.job, is_own=True)
        if synced.waits:
            raise _NotYet(DowngradePhase.WAITING, synced.message)

    def _publish(self, operation: Operation) -> None:
        published = self.publish_requests.publish(operation.catalog, operation.target, remember=False)
        if published.job is not None:
            raise _wait_for(published.job, is_own=True)
        if published.never is not None:
            raise Conflict(f"Hive cannot represent every change: {published.never}")
        if published.outcome is not PublishOutcome.UP_TO_DATE:
            raise _NotYet(DowngradePhase.WAITING, published.message)

    def _load_idle_table(self, operation: Operation) -> Relation:
        """Return the table if no job works on it; Conflict when the last job of this downgrade failed."""
        with self.database.reading() as uow:
            current, now = running(uow, operation.id, lock=False), uow.now()
            relation = uow.relations.of_hive(operation.catalog, operation.target)
            busy = uow.jobs.active_of(_relation_id(operation))
            requested = current.journal.get("job")
            last = None if requested is None else uow.jobs.get(JobId(UUID(requested)))
        if relation is None or relation.id != _relation_id(operation):
            raise Conflict(f"the table over {operation.target} was dropped meanwhile")
        if _is_too_early(current, now):
            raise Overtaken
        if busy is not None:
            raise _wait_for(busy, is_own=False)
        if last is not None and last.status in (JobStatus.FAILED, JobStatus.CANCELED):
            raise Conflict(
                f"its {last.kind} job was canceled"
                if last.status is JobStatus.CANCELED
                else f"its {last.kind} job failed: {last.error}",
                hint=f"read `firn job logs {last.id}`, fix the cause, and downgrade the table again",
            )
        return relation

    def _check_droppable(self, operation: Operation, relation: Relation) -> LinkedTable:
        """Return the link with which the table can be dropped; Conflict when it never can be."""
        comparison = self.check.compare(relation)
        linked = comparison.linked
        if remaining := comparison.partitions.count:
            message = f"{format_count(remaining, 'partition')} still to be published"
            raise _NotYet(DowngradePhase.WAITING, message)
        if only_here := [column.what for column in linked.link.column_differences if column.is_only_here]:
            raise Conflict(
                f"Hive's readers would not see every column: {only_here[0]}",
                hint="let Firn add it in Hive (firn.hive.schema-push), or drop it here, and downgrade again",
            )
        until = comparison.grace_until
        if until is not None and operation.params["wait_for_writers"]:
            count = len(comparison.watched)
            directories = "1 superseded directory" if count == 1 else f"{count:,} superseded directories"
            message = f"Hive is up to date; Firn watches {directories} until {until:%Y-%m-%d %H:%M} UTC"
            message += f": {explain_wait(comparison, starts_anew=False)}"
            if writers := self.check.find_writers(relation):
                message += f"; {', '.join(sorted({writer.holder for writer in writers})[:_NAMED])} writes now"
            raise _NotYet(DowngradePhase.GRACE_PERIOD, message, until=until)
        return linked

    def _drop(self, operation: Operation, linked: LinkedTable) -> None:
        """Drop the table, unless anything has moved since it stood on the files that Hive lists."""
        relation = linked.relation
        with self.database.writing() as uow:
            current = running(uow, operation.id)
            if linked.is_keyed:
                uow.keyed.lock(relation.id)  # in the order of commits: keyed table, then stores
            if not _is_unmoved(uow, linked):
                raise _NotYet(DowngradePhase.WAITING, "another commit changed the table meanwhile")
            _release(uow, current)
            result = _build_result(uow, linked)
            entry = drop_relation(uow, self.metadata, relation, DropOptions(purge=operation.params["purge"]))
            now, count = uow.now(), result["partitions"]
            done = enter_phase(replace(current, done=count, total=count, message=""), DowngradePhase.DONE, now)
            result |= {"kept_until": entry.keep_until.isoformat()}
            uow.operations.put(replace(done, status=OperationStatus.SUCCEEDED, result=result, ended_at=now))

    def _note(self, operation: Operation, progress: _NotYet) -> None:
        with self.database.writing() as uow:
            current, now = running(uow, operation.id), uow.now()
            next_at = now if progress.until is None else min(progress.until, now + WATCH_EVERY)
            journal = {**current.journal, "next_at": next_at.isoformat()}
            if progress.job is not None:
                journal["job"] = str(progress.job.id)
            noted = replace(current, journal=journal, message=progress.message)
            uow.operations.put(enter_phase(noted, progress.phase, now))

    def _end(self, operation: Operation, status: OperationStatus, error: str, hint: str | None) -> None:
        """End without a drop. The table stays linked, and both sides keep the changes published meanwhile."""
        with self.database.writing() as uow:
            current = uow.operations.lock(operation.id)
            if current.status.is_final:
                return
            _release(uow, current)
            now = uow.now()
            ended = replace(current, status=status, error=error, hint=hint, message="")
            uow.operations.put(replace(ended, ended_at=now, updated_at=now))


def _release(uow: UnitOfWork, operation: Operation) -> None:
    """Let the table accept changes and jobs again, also after a drop and an undrop."""
    relation_id = _relation_id(operation)
    if uow.baselines.given_back_by(relation_id) == operation.id:
        uow.baselines.give_back(relation_id, None)
    uow.blockers.remove(relation_id, BlockerId(UUID(operation.journal["blocker"])))


def _relation_id(operation: Operation) -> RelationId:
    return RelationId(UUID(operation.params["relation"]))


def _is_too_early(operation: Operation, now: datetime) -> bool:
    next_at = operation.journal.get("next_at")
    return next_at is not None and now < datetime.fromisoformat(next_at)


def _blocker(relation: Relation, now: datetime) -> Blocker:
    return Blocker(
        id=BlockerId(uuid4()),
        relation_id=relation.id,
        reason="a downgrade to Hive runs",
        created_at=now,
        until=now + LONGEST,
        kinds=frozenset(JobKind) - SERVING,
        set_by=caller.get().principal,
    )


def _is_unmoved(uow: UnitOfWork, before: LinkedTable) -> bool:
    """Whether no commit, sync, publish or job came since the table stood on the files that Hive lists."""
    now = load_linked_table(uow, uow.relations.get(before.relation.id))
    keyed = uow.keyed.get(now.relation.id) if now.is_keyed else None
    return (
        now.busy is None
        and now.link.generation == before.link.generation
        and now.baselines == before.baselines
        and now.target.metadata_location == before.target.metadata_location
        and not any(baseline.publishing for baseline in now.baselines.values())
        and (keyed is None or not keyed.pending_commits)
    )


def _build_result(uow: UnitOfWork, linked: LinkedTable) -> dict[str, Any]:
    """The operation's result: where Hive's rows lie now."""
    directory = get_publish_directory(uow, linked.relation)
    in_hive = [baseline for baseline in linked.baselines.values() if not baseline.is_dropped]
    published = sum(
        lies_in(normalize_location(partition.location), normalize_location(directory)) for partition in in_hive
    )
    where = {"place": directory} if published else {}
    return {"table": linked.relation.hive_name, "partitions": len(in_hive), "published": published, **where}
