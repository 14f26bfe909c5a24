"""Downgrade: Hive gets its table back with everything that was changed here, and this side lets go of it.

An operation that goes by what it finds, so a crash needs no undoing: it syncs, merges and publishes until there is
nothing left to do, watches the directories that were left for as long as writers may know them, and ends in one
transaction that drops the table only if it still stands on exactly the files that Hive lists. Writers of this side are
refused meanwhile, and jobs that would rewrite what was given are kept away.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from catalog.errors import CatalogError, CommitUnknown, Conflict, NotFound, Unavailable
from catalog.hive.baseline import WatchedDirectory
from catalog.hive.model import HiveTable
from catalog.hive.partition_names import to_partition_records
from catalog.hive.publish_decisions import (
    TableSides,
    candidates_of,
    classify_partitions,
    decide,
    filter_unnameable,
)
from catalog.hive.publishing import PublishComparison, compare_partitions
from catalog.iceberg.json import Json
from catalog.jobs.blocker import LONGEST, Blocker, BlockerId
from catalog.jobs.job import Job, JobId, JobKind, JobStatus
from catalog.jobs.operation import Operation, OperationId
from catalog.names import CatalogName, RelationId
from catalog.planning.trigger_result import format_count
from catalog.ports.files import TableFiles
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from firn.protocol.locations import lies_in, normalize_location
from firn.protocol.operations import OperationKind, OperationStatus
from server.service.access.caller import caller
from server.service.commit.commit_target import load_metadata
from server.service.drop.drop import DropOptions, check_unprotected, drop_relation
from server.service.hive.hive_state import read_some, split_name
from server.service.hive.link_state import LinkedTable, load_linked_table
from server.service.hive.operations import check_unworked
from server.service.hive.publish_locations import get_publish_directory
from server.service.hive.publish_requests import PublishRequests
from server.service.hive.publisher import Publishers
from server.service.hive.results import PublishOutcome, SyncOutcome
from server.service.hive.sync import Syncs
from server.service.hive.table_index import HiveIndex
from server.service.hive.upgrade_attempt import Canceled, Overtaken, running
from server.service.jobs.blockers import put_blocker
from server.service.planning.planner import load_facts
from server.service.tables.metadata_files import MetadataFiles

log = logging.getLogger(__name__)

SERVING = frozenset({JobKind.SYNC, JobKind.MERGE, JobKind.PUBLISH})
"""Jobs that bring a table nearer to what Hive has; all others would take it away again."""

WATCH_EVERY = timedelta(minutes=1)
"""How often a table is looked at for which only time can do more: that takes a day by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeStatus:
    """What one activation of the task did."""

    finished: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradePreview:
    """What a downgrade has to do, as far as it can be known before."""

    table: str
    partitions: int
    pending_rows: int
    """Changes that are not merged yet."""
    differing: int
    """Partitions that Hive does not have as they are in base."""
    directories_in_grace: int
    """Directories that were left, and how long writers may still know one of them."""
    grace_until: datetime | None
    drift: str | None
    """What Hive's side has changed and nobody has decided about: it has to be mended first."""
    blocked: str | None
    """What Hive cannot be given, and what to do: a downgrade would never end."""


class _Waits(Exception):
    """There is something to do first, which is under way or which only time can do."""

    def __init__(self, words: str, *, job: Job | None = None, until: datetime | None = None) -> None:
        super().__init__(words)
        self.job = job
        self.until = until


@dataclass(frozen=True, slots=True)
class _Compared:
    """A table's books, and what Hive has to be given by them."""

    linked: LinkedTable
    found: PublishComparison
    never: str | None
    """What of it cannot be given, in words."""


@dataclass(frozen=True)
class Downgrades:
    """Starts downgrades and carries them on, a step at each activation; any server goes on where another has died."""

    database: Database
    metadata: MetadataFiles
    index: HiveIndex
    files: TableFiles
    syncs: Syncs
    publish_requests: PublishRequests
    publishers: Publishers

    def start(
        self, catalog: CatalogName, full_name: str, *, wait_for_writers: bool = True, purge: bool = False
    ) -> Operation:
        """Begin to give a table back; from now on it takes no changes but Hive's.

        With `wait_for_writers` it waits for Hive jobs that started before the last publish; with `purge` the
        files of this side are deleted when the dropped table is kept no longer.
        NotFound when no table is linked to that Hive table, Protected when its owner forbids it, Conflict while another
        operation works on it, or where Hive cannot be given what was changed here.
        """
        target = ".".join(split_name(full_name))
        with self.database.reading() as uow:
            relation = _linked_relation(uow, catalog, target)
        self._refuse_never(relation)
        with self.database.writing() as uow:
            relation = _linked_relation(uow, catalog, target)
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
                phase="waiting",
                unit="partitions",
            )
            uow.operations.add(operation)
            uow.baselines.give_back(relation.id, operation.id)
            put_blocker(uow, blocker, now)
        return operation

    def left_to_do(self, catalog: CatalogName, full_name: str) -> DowngradePreview:
        """What there is to do; changes nothing. NotFound without a linked table, Unavailable without the metastore."""
        with self.database.reading() as uow:
            relation = _linked_relation(uow, catalog, ".".join(split_name(full_name)))
            keyed = load_facts(uow, relation).keyed
        compared_with = self._compared(relation)
        linked, found = compared_with.linked, compared_with.found
        watched = _watched(linked)
        return DowngradePreview(
            table=str(relation.name),
            partitions=sum(not baseline.is_dropped for baseline in linked.baselines.values()),
            pending_rows=0 if keyed is None else keyed.pending_rows,
            differing=found.count,
            directories_in_grace=len(watched),
            grace_until=_watched_until(linked) if watched else None,
            drift=None if linked.link.drift is None else linked.link.drift.message,
            blocked=compared_with.never,
        )

    def _refuse_never(self, relation: Relation) -> None:
        """Conflict where it would never end; what the metastore does not say is asked again by the first step."""
        with suppress(Unavailable, NotFound):
            if (never := self._compared(relation).never) is not None:
                raise Conflict(f"Hive cannot be given everything: {never}")

    def activate(self) -> DowngradeStatus:
        """A step of each; one that cannot go on holds up no other.

        ExceptionGroup at the end when there were errors that nobody has thought of.
        """
        status, broken = DowngradeStatus(), dict[str, Exception]()
        with self.database.reading() as uow:
            unfinished = uow.operations.unfinished()
        for operation in (one for one in unfinished if one.kind is OperationKind.DOWNGRADE):
            try:
                ended = self._step_or_end(operation)
            except Exception as error:  # noqa: BLE001 -- raised below, when the downgrades after it have had their turn
                broken[f"{operation.catalog}.{operation.target}"] = error
                continue
            if ended is not None:
                status = replace(status, finished=status.finished + ended, failed=status.failed + (not ended))
        if broken:
            raise ExceptionGroup(f"could not go on with {', '.join(broken)}", list(broken.values()))
        return status

    def _step_or_end(self, operation: Operation) -> bool | None:
        """Whether the table was let go of; None while that is not decided."""
        try:
            return self._step_or_wait(operation)
        except Overtaken:
            return None
        except Canceled:
            self._give_up(operation, OperationStatus.CANCELED, "canceled", "the table takes changes again")
            return False
        except CatalogError as error:
            if self._is_worked_on(operation):  # a job came between our look and what we asked for
                return None
            self._give_up(operation, OperationStatus.FAILED, error.message, error.hint)
            return False

    def _step_or_wait(self, operation: Operation) -> bool | None:
        try:
            self._step(operation)
        except _Waits as waits:
            self._say(operation, waits)
            return None
        except (Unavailable, CommitUnknown) as error:  # what has landed is seen at the next step
            self._say(operation, _Waits(f"waits: {error}"))
            return None
        return True

    def _is_worked_on(self, operation: Operation) -> bool:
        with self.database.reading() as uow:
            return uow.jobs.active_of(_relation_id(operation)) is not None

    def _step(self, operation: Operation) -> None:
        """Ask for the next thing that has to be done, if nothing is at work; the order makes each round come nearer."""
        relation = self._relation(operation)
        taken = self.syncs.sync(operation.catalog, operation.target)
        if taken.conflict:
            raise Conflict(
                f"Hive and the table differ, and nobody has decided: {taken.message}",
                hint="mend what it names, sync, and begin again",
            )
        if taken.job is not None:
            raise _Waits("taking over what Hive has changed", job=taken.job)
        if taken.waits:
            raise _Waits(f"waits: {taken.message}")
        given = self.publish_requests.publish(operation.catalog, operation.target, remember=False)
        if given.job is not None:
            is_merge = given.job.kind is JobKind.MERGE
            raise _Waits("merging" if is_merge else "publishing what differs", job=given.job)
        if given.never is not None:
            raise Conflict(f"Hive cannot be given everything: {given.never}")
        if given.outcome is not PublishOutcome.UP_TO_DATE:
            raise _Waits(f"waits: {given.message}" if given.waits else given.message)
        self._table_status(operation, relation)
        swept = self.syncs.sync(operation.catalog, operation.target, everything=True)
        if swept.outcome is not SyncOutcome.UNCHANGED:
            raise _Waits("taking over what Hive has changed")
        linked = self._table_status(operation, relation)
        self.publishers.release(relation)  # should the last step not come, the next publish marks again
        self._let_go(operation, linked)

    def _relation(self, operation: Operation) -> Relation:
        """The table, when nothing works on it; Conflict when the last job that was asked for has failed."""
        with self.database.reading() as uow:
            current, now = running(uow, operation.id, lock=False), uow.now()
            relation = uow.relations.of_hive(operation.catalog, operation.target)
            busy = uow.jobs.active_of(_relation_id(operation))
            asked = current.journal.get("job")
            last = None if asked is None else uow.jobs.get(JobId(UUID(asked)))
        if relation is None or relation.id != _relation_id(operation):
            raise Conflict(f"the table over {operation.target} was dropped meanwhile")
        if _is_too_early(current, now):
            raise Overtaken
        if busy is not None:
            raise _Waits(f"waits: a {busy.kind} job is {busy.status}")
        if last is not None and last.status in (JobStatus.FAILED, JobStatus.CANCELED):
            raise Conflict(
                f"its {last.kind} job was canceled"
                if last.status is JobStatus.CANCELED
                else f"its {last.kind} job has failed: {last.error}",
                hint=f"`firn job logs {last.id}` tells more; mend it and begin again",
            )
        return relation

    def _table_status(self, operation: Operation, relation: Relation) -> LinkedTable:
        """The books with which the table can be let go of; Conflict when it never can."""
        compared_with = self._compared(relation)
        linked, found = compared_with.linked, compared_with.found
        if found.count:
            raise _Waits(f"waits: Hive is still to be given {format_count(found.count, 'partition')}")
        if unseen := [one.what for one in linked.link.column_differences if one.is_only_here]:
            raise Conflict(
                f"Hive's readers could not see everything: {unseen[0]}",
                hint="let Hive be given it (firn.hive.schema-push), or drop the column here, and begin again",
            )
        if (count := len(_watched(linked))) and operation.params["wait_for_writers"]:
            until = _watched_until(linked)
            words = f"Hive has everything; former directories ({count}) are watched until"
            raise _Waits(f"{words} {until:%Y-%m-%d %H:%M} UTC", until=until)
        return linked

    def _compared(self, relation: Relation) -> _Compared:
        with self.database.reading() as uow:
            linked = load_linked_table(uow, uow.relations.get(relation.id))
        table, metadata = self.index.table(relation), load_metadata(self.metadata, linked.target)
        records = to_partition_records(table.partition_columns, linked.baselines)
        found = compare_partitions(self.files.live_files(metadata), linked.baselines, records)
        return _Compared(linked, found, self._why_never(linked, table, metadata, found))

    def _why_never(self, linked: LinkedTable, table: HiveTable, metadata: Json, found: PublishComparison) -> str | None:
        """Why Hive cannot be given some partition as it is, whatever a sync or time brings."""
        metastore, columns = self.index.metastore(linked.relation.catalog), table.partition_columns
        in_hive = read_some(metastore, table.database, table.name, [*found.differing]).units
        decisions = decide(candidates_of(found, columns), [filter_unnameable(columns)])
        formats = {unit.name: unit.format for unit in in_hive}
        sides = TableSides(link=linked.link, table=table, metadata=metadata)
        return classify_partitions(decisions, formats, (), sides, self.files.live_files(metadata)).blocked

    def _let_go(self, operation: Operation, linked: LinkedTable) -> None:
        """Drop the table, unless anything has moved since it was seen to be what Hive lists."""
        relation = linked.relation
        with self.database.writing() as uow:
            current = running(uow, operation.id)
            if linked.is_keyed:
                uow.keyed.lock(relation.id)  # in the order of commits: keyed table, then stores
            if not _is_unmoved(uow, linked):
                raise _Waits("others have changed the table meanwhile")
            _release(uow, current)
            result = _told(uow, linked)
            entry = drop_relation(uow, self.metadata, relation, DropOptions(purge=operation.params["purge"]))
            now, count = uow.now(), result["partitions"]
            done = replace(current, status=OperationStatus.SUCCEEDED, phase="done", done=count, total=count)
            result |= {"kept_until": entry.keep_until.isoformat()}
            uow.operations.put(replace(done, result=result, ended_at=now, updated_at=now))

    def _say(self, operation: Operation, waits: _Waits) -> None:
        with self.database.writing() as uow:
            current, now = running(uow, operation.id), uow.now()
            next_at = now if waits.until is None else min(waits.until, now + WATCH_EVERY)
            journal = {**current.journal, "next_at": next_at.isoformat()}
            if waits.job is not None:
                journal["job"] = str(waits.job.id)
            uow.operations.put(replace(current, journal=journal, phase=str(waits), updated_at=now))

    def _give_up(self, operation: Operation, status: OperationStatus, error: str, hint: str | None) -> None:
        """The table goes on as before: what was given to Hive meanwhile is what both sides have."""
        with self.database.writing() as uow:
            current = uow.operations.lock(operation.id)
            if current.status.is_final:
                return
            _release(uow, current)
            now = uow.now()
            uow.operations.put(replace(current, status=status, error=error, hint=hint, ended_at=now, updated_at=now))


def _release(uow: UnitOfWork, operation: Operation) -> None:
    """Nothing is kept from the table any more, also should it be dropped and brought back."""
    relation_id = _relation_id(operation)
    if uow.baselines.given_back_by(relation_id) == operation.id:
        uow.baselines.give_back(relation_id, None)
    uow.blockers.remove(relation_id, BlockerId(UUID(operation.journal["blocker"])))


def _relation_id(operation: Operation) -> RelationId:
    return RelationId(UUID(operation.params["relation"]))


def _is_too_early(operation: Operation, now: datetime) -> bool:
    next_at = operation.journal.get("next_at")
    return next_at is not None and now < datetime.fromisoformat(next_at)


def _linked_relation(uow: UnitOfWork, catalog: CatalogName, target: str) -> Relation:
    uow.catalogs.get(catalog)
    relation = uow.relations.of_hive(catalog, target)
    if relation is None:
        raise NotFound(f"{catalog} has no table over {target}: there is nothing to give back")
    return relation


def _watched(linked: LinkedTable) -> list[WatchedDirectory]:
    return [one for baseline in linked.baselines.values() for one in baseline.watched]


def _watched_until(linked: LinkedTable) -> datetime:
    left = max(one.since_ns for one in _watched(linked))
    return datetime.fromtimestamp((left + linked.when.watch_ns) / 1e9, UTC)


def _blocker(relation: Relation, now: datetime) -> Blocker:
    return Blocker(
        id=BlockerId(uuid4()),
        relation_id=relation.id,
        reason="it is being given back to Hive",
        created_at=now,
        until=now + LONGEST,
        kinds=frozenset(JobKind) - SERVING,
        set_by=caller.get().principal,
    )


def _is_unmoved(uow: UnitOfWork, before: LinkedTable) -> bool:
    """Whether nothing has come since the table was seen to be what Hive lists: no commit, sync, publish or job."""
    now = load_linked_table(uow, uow.relations.get(before.relation.id))
    keyed = load_facts(uow, now.relation).keyed
    return (
        now.busy is None
        and now.link.generation == before.link.generation
        and now.baselines == before.baselines
        and now.target.metadata_location == before.target.metadata_location
        and not any(baseline.publishing for baseline in now.baselines.values())
        and (keyed is None or not keyed.pending_commits)
    )


def _told(uow: UnitOfWork, linked: LinkedTable) -> dict[str, Any]:
    """What people want to know at the end: where Hive's rows lie now."""
    place = get_publish_directory(uow, linked.relation)
    there = [one for one in linked.baselines.values() if not one.is_dropped]
    published = sum(lies_in(normalize_location(one.location), normalize_location(place)) for one in there)
    where = {"place": place} if published else {}
    return {"table": linked.relation.hive_name, "partitions": len(there), "published": published, **where}
