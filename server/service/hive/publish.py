"""Publish: Hive is given what base or a plain table holds, partition by partition, where it differs from Hive's list.

Planned here, from files alone. An optimizer writes the rows of these partitions as Hive reads them, into directories of
their own; what becomes of them is in `published`. What is published is what was merged: pending changes wait.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from catalog.datafile import FileFormat
from catalog.errors import CatalogError, CommitUnknown, Conflict, NotFound, RequirementFailed
from catalog.hive.checkpoint import PublishPlan
from catalog.hive.ground import Subdirectories
from catalog.hive.link import HiveLink
from catalog.hive.model import HiveColumn, HiveTable
from catalog.hive.names import name_of, records_of
from catalog.hive.parts import is_beginning
from catalog.hive.publish_request import PublishRequest
from catalog.hive.publishing import Comparison, compared, fingerprint
from catalog.hive.types import parse_type
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot, sequence_number
from catalog.iceberg.table import current_schema, ref_snapshot_id
from catalog.job import Job, JobKind
from catalog.keyed.guard import watermark_of
from catalog.keyed.spec import BASE
from catalog.keyed.view_sql import pinned_name
from catalog.locations import PUBLISH_LOCATION
from catalog.names import CatalogName, RelationId
from catalog.planning import Due, backing_off
from catalog.ports.hive import TableFiles
from catalog.ports.store import Database, UnitOfWork
from catalog.relation import Relation, RelationKind
from server.service.allowed import check_published
from server.service.facts import load_metadata
from server.service.hive.books import Linked, linked_table, note_all_given, note_published
from server.service.hive.columns import Columns, Followed
from server.service.hive.freshness import Freshness
from server.service.hive.index import HiveIndex
from server.service.hive.locking import check_lockable
from server.service.hive.look import why_unfit
from server.service.hive.places import own_place, publish_location
from server.service.hive.present import Present
from server.service.hive.publishable import (
    fresh,
    named_in_hive,
    no_avro,
    taken_over,
    why_never,
    why_waiting,
    without,
    writable,
)
from server.service.hive.register import Moved
from server.service.hive.results import PublishOutcome, PublishResult
from server.service.hive.state import read_some, split_name
from server.service.hive.switch import Switches
from server.service.hive.task import current_names, told_column, told_values
from server.service.hive.unheld import Unheld, forget_unheld, names_of, unheld
from server.service.hive.wishes import NOTHING, Wishes, waiting_for
from server.service.metadata import MetadataFiles
from server.service.permits import blocked_by, check_not_blocked
from server.service.planner import facts_of, past_of
from server.service.queueing import added, queued

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishStatus:
    """What one round over all linked tables did."""

    planned: int = 0
    unavailable: int = 0


@dataclass(frozen=True)
class Publishes:
    """Plans publishes; safe to run at any time, any number of times."""

    database: Database
    metadata: MetadataFiles
    index: HiveIndex
    files: TableFiles
    switches: Switches
    columns: Columns

    @property
    def present(self) -> Present:
        """What makes plain tables readable as of a snapshot."""
        return Present(self.database, self.metadata, self.columns.committer, self.files)

    @property
    def freshness(self) -> Freshness:
        """What tells how far Hive is behind."""
        return Freshness(self.database, self.metadata, self.index, self.files)

    def publish(
        self, catalog: CatalogName, full_name: str, *, merge: bool = True, remember: bool = True
    ) -> PublishResult:
        """Give Hive what has changed; with `merge`, what is pending is merged first, by a job of its own.

        What is left to do then, and what has to wait, is done by later rounds, unless it is not to `remember`.
        NotFound when no table is linked to that Hive table, Conflict while Hive has a column that the table has no
        more, while another job works on the table or where another Firn publishes to it, Unavailable without the
        metastore.
        """
        wanted = ".".join(split_name(full_name))
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            relation = uow.relations.of_hive(catalog, wanted)
        if relation is None:
            raise NotFound(
                f"{catalog} has no table over {wanted}: a Hive table is published once it is upgraded",
                hint=f"upgrade it: firn hive upgrade {wanted}",
            )
        return self._wishes.ask(relation, merge=merge, remember=remember)

    def is_asked_for(self, relation_id: RelationId) -> bool:
        """Whether somebody waits for a publish of it; cheap, for asking at each job's end."""
        with self.database.reading() as uow:
            link = uow.grounds.link(relation_id)
        return link is not None and link.publish_request is not None and link.publish_request.is_open

    @property
    def _wishes(self) -> Wishes:
        return Wishes(self.database, lambda relation: self.plan(relation, asked=True))

    def activate(self) -> PublishStatus:
        """Publish every table whose policy wants it and whose interval is over, merging first what waits that long.

        Without an interval of its own a table is published from its first publish on, and merged by its own policy.

        ExceptionGroup at the end when there were errors that nobody has thought of.
        """
        status, broken = PublishStatus(), dict[str, Exception]()
        with self.database.reading() as uow:
            linked = [one for catalog in uow.catalogs.list() for one in uow.relations.linked_to_hive(catalog.name)]
        for relation in linked:
            try:
                planned = self._round(relation)
            except (CatalogError, CommitUnknown) as error:
                log.warning("%s: not published: %s", relation.name, error)
                status = replace(status, unavailable=status.unavailable + 1)
            except Exception as error:  # noqa: BLE001 -- raised below, when the tables after it have had their turn
                broken[f"{relation.catalog}.{relation.name}"] = error
            else:
                status = replace(status, planned=status.planned + planned)
        if broken:
            raise ExceptionGroup(f"could not publish {', '.join(broken)}", list(broken.values()))
        return status

    def _round(self, relation: Relation) -> bool:
        """Whether something was planned, or looked for, because somebody has asked or the policy says so."""
        wanted = self._wanted(relation)
        if isinstance(wanted, PublishRequest):
            if self._wishes.carry_on(relation, wanted):
                return True
            wanted = self._wanted(relation)
        if wanted is JobKind.MERGE:
            self._merge_planned(relation)
        elif wanted is JobKind.PUBLISH:
            self.plan(relation, asked=False)
        return isinstance(wanted, JobKind)

    def _wanted(self, relation: Relation) -> JobKind | PublishRequest | None:
        """What somebody has asked for, or what a table's freshness in Hive asks for now."""
        with self.database.reading() as uow:
            link = uow.grounds.link(relation.id)
            if link is None:
                return None
            request = link.publish_request
            return request if request is not None and request.is_open else self._due(uow, relation, link)

    def _due(self, uow: UnitOfWork, relation: Relation, link: HiveLink) -> JobKind | None:
        facts, now = facts_of(uow, relation), uow.now()
        interval: timedelta | None = facts.policy["firn.hive.publish.interval"]
        if interval is None or not facts.policy["firn.optimize.enabled"]:
            return None
        keyed = facts.keyed
        last, is_default = link.published_at, facts.policy.is_default("firn.hive.publish.interval")
        if last is None and is_default:  # nobody has asked for Hive's entries to be changed
            return None
        if last is not None and now - last < interval:
            return None
        if uow.jobs.active_of(relation.id) is not None or blocked_by(uow, relation.id, JobKind.PUBLISH):
            return None
        past = past_of(uow, relation.id)
        if any(backing_off(kind, past, now) for kind in (JobKind.PUBLISH, JobKind.MERGE)):
            return None
        if keyed is None:
            return JobKind.PUBLISH if facts.stats.snapshot_id != link.published_snapshot_id else None
        waits = keyed.pending_since is not None and now - keyed.pending_since >= interval
        if waits and not is_default:  # else it is merged when its own policy says so
            return JobKind.MERGE
        news = keyed.watermark > link.published_through or _resolved_since(past, last)
        return JobKind.PUBLISH if news else None

    def _merge_planned(self, relation: Relation) -> None:
        with self.database.writing() as uow:
            facts, now = facts_of(uow, relation), uow.now()
            if facts.keyed is None or blocked_by(uow, relation.id, JobKind.MERGE):
                return
            why = "changes wait to be published to Hive (firn.hive.publish.interval)"
            due = Due(kind=JobKind.MERGE, why=why, state=f"publish {facts.keyed.change_sequence}")
            added(uow, queued(relation, due, facts, now), now)

    def plan(self, relation: Relation, *, asked: bool) -> PublishResult:
        """A job for what differs, unless nothing does or another job is at work."""
        name = str(relation.name)
        with self.database.reading() as uow:
            busy = uow.jobs.active_of(relation.id)
        if busy is not None:
            return _under_way(relation, busy, asked=asked)
        open_still = self.switches.finish(relation)
        if open_still.left:
            return waiting_for(relation, open_still.why_left)
        with self.database.reading() as uow:
            linked, now_ns = linked_table(uow, relation), int(uow.now().timestamp() * 1e9)
        metastore, names = self.index.metastore(relation.catalog), split_name(relation.hive_name or "")
        table = metastore.table(*names)
        if unfit := why_unfit(linked.link, table):
            raise Conflict(unfit)
        try:
            followed = self.columns.follow(linked, table, publishing=True)
        except Moved:
            return waiting_for(relation, "a sync came first")
        with self.database.reading() as uow:
            linked = linked_table(uow, uow.relations.get(relation.id))
        if linked.link.read_again:
            return waiting_for(relation, "a sync builds partitions anew with a column that came back")
        metadata = load_metadata(self.metadata, linked.target)
        records = records_of(table.partition_columns, linked.grounds)
        found = compared(self.files.live_files(metadata), linked.grounds, records)
        named = named_in_hive(found, table)
        free = without(named, linked.link.held_partitions, table)
        settled = without(free, fresh(linked, now_ns, watermark_of(metadata)), table)
        state = read_some(metastore, *names, [*settled.differing])
        taken = taken_over(settled, self._changed_by_hive(linked, settled))
        strange = no_avro(metadata)
        able, formats = writable(taken, state, strange)
        known = self._unheld(linked, metadata, named, table, formats)
        ready = without(able, known.why, table)
        waiting = found.count - ready.count
        never = why_never(settled if named.count == found.count else found, state, strange) or known.never
        counts = [one.count for one in (found, named, free, settled, taken, able)]
        wait = "; ".join([*why_waiting(counts, strange), *known.words(names_of(able, table))])
        if not ready.count:
            self._note_given(linked, ready, metadata, is_all=not waiting)
            outcome = PublishOutcome.HELD_BACK if waiting else PublishOutcome.UP_TO_DATE
            message = f"{NOTHING}; {wait}" if waiting else NOTHING
            return PublishResult(
                table=name, outcome=outcome, message=message, held_back=wait, partitions_wait=waiting, never=never
            )
        try:
            metadata = self.present.readable(linked, metadata)
        except RequirementFailed:
            return waiting_for(relation, "others have changed the table meanwhile")
        task = _task(linked, table, metadata, ready, followed, formats)
        check_lockable(metastore, *names, [one["name"] for one in task["partitions"]])
        try:
            self.switches.owners.claim(relation, table)
        except CommitUnknown as error:
            return waiting_for(relation, str(error))
        done = self._queued(linked, self._planned(linked, metadata, ready, task, known.tried), asked=asked)
        message = f"{done.message}; {wait}" if waiting else done.message
        return replace(done, message=message, held_back=wait, partitions_wait=waiting, never=never)

    def _changed_by_hive(self, linked: Linked, found: Comparison) -> set[str]:
        """Partitions of a plain table that Hive has changed, which no sync has taken over yet, or can.

        Those of a keyed table are rebuilt whatever they were: its publish finds out in time that they have changed.
        """
        if linked.is_keyed or not found.differing:
            return set()
        grounds = {name: linked.grounds[name] for name in found.differing}
        return self.switches.overtaken(linked.relation, grounds, linked.subdirectories)

    def _unheld(
        self, linked: Linked, metadata: Json, found: Comparison, table: HiveTable, formats: Mapping[str, FileFormat]
    ) -> Unheld:
        live = self.files.live_files(metadata)
        known = unheld(linked.link, live, found, table, metadata["current-schema-id"], formats)
        if known.stale:
            with self.database.writing() as uow:
                forget_unheld(uow, linked.relation.id, known.stale)
        return known

    def _note_given(self, linked: Linked, found: Comparison, metadata: Json, *, is_all: bool) -> None:
        with self.database.writing() as uow:
            now = linked_table(uow, linked.relation)
            # What a sync has taken over meanwhile, Hive's side may have made without knowing any change.
            if now.link.generation != linked.link.generation:
                return
            note_published(uow, linked, {}, found.same, watermark_of(metadata))
            if is_all and now.grounds == linked.grounds:
                note_all_given(uow, linked, ref_snapshot_id(metadata, "main"))

    def _planned(
        self, linked: Linked, metadata: Json, found: Comparison, task: Json, tried: Mapping[str, str]
    ) -> PublishPlan:
        """What the job does, and what its commit is judged by."""
        head, files = current_snapshot(metadata), None
        if not linked.is_keyed:
            files = fingerprint(self.files.live_files(metadata), {*found.differing.values(), *found.unknown})
        return PublishPlan(
            task=task,
            head=ref_snapshot_id(metadata, "main"),
            sequence=0 if head is None else sequence_number(head),
            schema_id=metadata["current-schema-id"],
            through=watermark_of(metadata),
            same=tuple(sorted(found.same)),
            tried=tried,
            files=files,
        )

    def _queued(self, linked: Linked, plan: PublishPlan, *, asked: bool) -> PublishResult:
        relation = linked.relation
        words = f"partitions that differ from what Hive lists: {len(plan.task['partitions'])}"
        with self.database.writing() as uow:
            if linked_table(uow, relation).link.generation != linked.link.generation:
                return waiting_for(relation, "a sync came first")
            check_not_blocked(uow, relation.id, JobKind.PUBLISH)
            due = Due(kind=JobKind.PUBLISH, why=words, state=f"publish {linked.link.generation}")
            now = uow.now()
            job = queued(relation, due, facts_of(uow, relation), now, asked=asked)
            if not added(uow, job, now):
                return waiting_for(relation, "another job came first")
            task = {**plan.task, "root": f"{own_place(uow, relation, _counted(linked))}/{job.id}"}
            check_published(
                uow, self.metadata.files, relation.catalog, {PUBLISH_LOCATION: publish_location(uow, relation) or ""}
            )
            uow.grounds.stage(job.id, replace(plan, task=task))
        return PublishResult(table=str(relation.name), outcome=PublishOutcome.PUBLISHING, message=words, job=job)


def _under_way(relation: Relation, busy: Job, *, asked: bool) -> PublishResult:
    """The answer while a job works on the table: a publish of a keyed one will do, for no merge has come since."""
    if asked and busy.kind is JobKind.PUBLISH and relation.kind is RelationKind.KEYED:
        name, outcome = str(relation.name), PublishOutcome.PUBLISHING
        return PublishResult(table=name, outcome=outcome, message="is being published", job=busy)
    return waiting_for(relation, f"a {busy.kind} job is {busy.status}")


def _counted(linked: Linked) -> set[str]:
    """Directories below which every file counts as a partition's."""
    if linked.subdirectories is not Subdirectories.READ:
        return set()
    grounds = linked.grounds.values()
    return {*(one.location for one in grounds), *(one.location for ground in grounds for one in ground.watched)}


def _resolved_since(past: Sequence[Job], moment: datetime | None) -> bool:
    """Whether rows have left base without a change, because their keys came twice (decision 47)."""
    resolved = [one.ended_at for one in past if one.kind is JobKind.KEYS and one.committed_by and one.ended_at]
    return any(moment is None or ended > moment for ended in resolved)


def _task(
    linked: Linked,
    table: HiveTable,
    metadata: Json,
    found: Comparison,
    followed: Followed,
    formats: Mapping[str, FileFormat],
) -> Json:
    """What the optimizer writes: which partitions of which snapshot, as which columns."""
    names = current_names(metadata)
    columns = [told_column(column, names) for column in _written(table, followed)]
    partitioned_by = [told_column(column, names) for column in table.partition_columns]
    lost = [column["hive"] for column in (*columns, *partitioned_by) if column["name"] is None]
    if lost:
        raise Conflict(
            f"{table.full_name} has columns that {linked.relation.name} has not: {', '.join(lost)}; published, "
            "its rows would lose them for Hive's readers",
            hint=f"sync, if they are new in Hive; drop them there, if they were dropped here: ALTER TABLE "
            f"{table.full_name} REPLACE COLUMNS (…)",
        )
    told = {column["name"] for column in (*columns, *partitioned_by)}
    own = [field["name"] for field in current_schema(metadata)["fields"] if field["name"] not in told]
    asked = [*found.differing, *(name_of(table.partition_columns, one) for one in found.unknown)]
    head, name = ref_snapshot_id(metadata, "main"), linked.relation.name
    pinned = [*name.as_namespace, pinned_name(BASE, head, metadata["current-schema-id"])]
    return {
        "base": pinned if linked.is_keyed else [*name.namespace, name.name],
        "snapshot": None if linked.is_keyed else head,
        "columns": columns,
        "own_columns": own,
        "partition_columns": partitioned_by,
        "partitions": [
            {"name": name, "values": told_values(table, name), "format": str(formats[name])} for name in asked
        ],
    }


def _written(table: HiveTable, followed: Followed) -> Iterator[HiveColumn]:
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
