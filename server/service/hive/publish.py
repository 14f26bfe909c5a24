"""Publish: Hive is given what base holds, partition by partition, where that differs from what Hive lists.

Planned here, from files alone. An optimizer writes the rows of these partitions as Hive reads them, into directories of
their own; what becomes of them is in `published`. What is published is what was merged: pending changes wait.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from catalog.errors import CatalogError, CommitUnknown, Conflict, Invalid, NotFound
from catalog.hive.model import HiveTable
from catalog.hive.names import name_of, records_of
from catalog.hive.publishing import Comparison, compared
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema, ref_snapshot_id
from catalog.job import Job, JobKind
from catalog.keyed.guard import watermark_of
from catalog.keyed.spec import BASE
from catalog.keyed.view_sql import pinned_name
from catalog.names import CatalogName
from catalog.places import canonical, lies_in
from catalog.planning import Due, backing_off
from catalog.ports.hive import TableFiles
from catalog.ports.store import Database, UnitOfWork
from catalog.relation import Relation
from server.service.facts import load_metadata
from server.service.hive.books import Linked, linked_table, note_published
from server.service.hive.index import HiveIndex
from server.service.hive.look import why_unfit
from server.service.hive.state import split_name
from server.service.hive.switch import Switches
from server.service.hive.task import current_names, told_column, told_values
from server.service.metadata import MetadataFiles
from server.service.permits import blocked_by, check_not_blocked
from server.service.planner import asked_for, facts_of, past_of
from server.service.queueing import added, queued

log = logging.getLogger(__name__)

NOTHING = "nothing to publish"
WAITS = "waits:"
PLACE = "published-to-hive"
"""The directory of a warehouse in which published partitions lie: beside the tables, in none of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOutcome:
    """What one publish of one table did, or began."""

    table: str
    did: str
    job: Job | None = None


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

    def publish(self, catalog: CatalogName, full_name: str, *, merge: bool = True) -> PublishOutcome:
        """Give Hive what has changed; with `merge`, what is pending is merged first, by a job of its own.

        NotFound when no table is linked to that Hive table, Invalid for one without a key, Conflict while Hive has a
        column that the table has no more or while another job works on the table, Unavailable without the metastore.
        """
        wanted = ".".join(split_name(full_name))
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            relation = uow.relations.of_hive(catalog, wanted)
            keyed = None if relation is None else facts_of(uow, relation).keyed
        if relation is None:
            raise NotFound(
                f"{catalog} has no table over {wanted}: a Hive table is published once it is upgraded",
                hint=f"upgrade it: firn hive upgrade {wanted}",
            )
        if keyed is None:
            raise Invalid(
                f"{relation.name} has no key: a plain table stands on Hive's own files",
                hint="what engines write to a linked plain table is not given to Hive",
            )
        if merge and keyed.pending_commits:
            with self.database.writing() as uow:
                job = asked_for(uow, relation, facts_of(uow, relation), JobKind.MERGE, {}, "asked for, to publish it")
            return PublishOutcome(table=str(relation.name), did="merges what is pending first", job=job)
        return self.plan(relation, asked=True)

    def activate(self) -> PublishStatus:
        """Publish every table whose policy wants it and whose interval is over, merging first what waits that long.

        ExceptionGroup at the end when there were errors that nobody has thought of.
        """
        status, broken = PublishStatus(), dict[str, Exception]()
        with self.database.reading() as uow:
            linked = [one for catalog in uow.catalogs.list() for one in uow.relations.linked_to_hive(catalog.name)]
        for relation in linked:
            try:
                wanted = self._wanted(relation)
                if wanted is JobKind.MERGE:
                    self._merge_planned(relation)
                elif wanted is not None:
                    self.plan(relation, asked=False)
            except (CatalogError, CommitUnknown) as error:
                log.warning("%s: not published: %s", relation.name, error)
                status = replace(status, unavailable=status.unavailable + 1)
            except Exception as error:  # noqa: BLE001 -- raised below, when the tables after it have had their turn
                broken[f"{relation.catalog}.{relation.name}"] = error
            else:
                status = replace(status, planned=status.planned + (wanted is not None))
        if broken:
            raise ExceptionGroup(f"could not publish {', '.join(broken)}", list(broken.values()))
        return status

    def _wanted(self, relation: Relation) -> JobKind | None:
        """What a table's freshness in Hive asks for now."""
        with self.database.reading() as uow:
            found, facts, now = uow.grounds.link(relation.id), facts_of(uow, relation), uow.now()
            interval: timedelta | None = facts.policy["firn.hive.publish.interval"]
            if found is None or facts.keyed is None or interval is None or not facts.policy["firn.optimize.enabled"]:
                return None
            link, keyed = found[0], facts.keyed
            last = link["published_at"]
            if last is not None and now - datetime.fromisoformat(last) < interval:
                return None
            if uow.jobs.active_of(relation.id) is not None or blocked_by(uow, relation.id, JobKind.PUBLISH):
                return None
            past = past_of(uow, relation.id)
            if any(backing_off(kind, past, now) for kind in (JobKind.PUBLISH, JobKind.MERGE)):
                return None
            if keyed.pending_since is not None and now - keyed.pending_since >= interval:
                return JobKind.MERGE
            return JobKind.PUBLISH if keyed.watermark > link["given"] else None

    def _merge_planned(self, relation: Relation) -> None:
        with self.database.writing() as uow:
            facts, now = facts_of(uow, relation), uow.now()
            if facts.keyed is None or blocked_by(uow, relation.id, JobKind.MERGE):
                return
            why = "changes wait to be published to Hive (firn.hive.publish.interval)"
            due = Due(kind=JobKind.MERGE, why=why, state=f"publish {facts.keyed.change_sequence}")
            added(uow, queued(relation, due, facts, now), now)

    def plan(self, relation: Relation, *, asked: bool) -> PublishOutcome:
        """A job for what differs, unless nothing does or another job is at work."""
        name = str(relation.name)
        with self.database.reading() as uow:
            busy = uow.jobs.active_of(relation.id)
        if busy is not None:
            return PublishOutcome(table=name, did=f"{WAITS} a {busy.kind} job is {busy.status}")
        if left := self.switches.finish(relation).left:
            did = f"{WAITS} the metastore does not say whether {left} partitions were published"
            return PublishOutcome(table=name, did=did)
        with self.database.reading() as uow:
            linked, now_ns = linked_table(uow, relation), int(uow.now().timestamp() * 1e9)
        table = self.index.metastore(relation.catalog).table(*split_name(relation.hive_name or ""))
        if unfit := why_unfit(linked.link, table):
            raise Conflict(unfit)
        metadata = load_metadata(self.metadata, linked.target)
        records = records_of(table.partition_columns, linked.grounds)
        found = compared(self.files.live_files(metadata), linked.grounds, records)
        ready = _settled(found, linked, table, now_ns, watermark_of(metadata))
        waiting = found.count - ready.count
        wait = f"{waiting} partitions wait, because Hive has written to them a moment ago"
        if not ready.count:
            with self.database.writing() as uow:
                # What a sync has taken over meanwhile, Hive's side may have made without knowing any change.
                if linked_table(uow, relation).link["generation"] == linked.link["generation"]:
                    note_published(uow, relation.id, {}, ready.same, watermark_of(metadata))
            return PublishOutcome(table=name, did=f"{NOTHING}; {wait}" if waiting else NOTHING)
        done = self._queued(linked, table, metadata, ready, asked=asked)
        return replace(done, did=f"{done.did}; {wait}") if waiting else done

    def _queued(
        self, linked: Linked, table: HiveTable, metadata: Json, found: Comparison, *, asked: bool
    ) -> PublishOutcome:
        relation = linked.relation
        words = f"partitions that differ from what Hive lists: {found.count}"
        task = _task(linked, table, metadata, found)
        with self.database.writing() as uow:
            if linked_table(uow, relation).link["generation"] != linked.link["generation"]:
                return PublishOutcome(table=str(relation.name), did=f"{WAITS} a sync came first")
            check_not_blocked(uow, relation.id, JobKind.PUBLISH)
            due = Due(kind=JobKind.PUBLISH, why=words, state=f"publish {linked.link['generation']}")
            now = uow.now()
            job = queued(relation, due, facts_of(uow, relation), now, asked=asked)
            if not added(uow, job, now):
                return PublishOutcome(table=str(relation.name), did=f"{WAITS} another job came first")
            task["root"] = f"{_place(uow, relation)}/{job.id}"
            plan = {
                "head": ref_snapshot_id(metadata, "main"),
                "through": watermark_of(metadata),
                "same": sorted(found.same),
            }
            uow.grounds.stage(job.id, {"task": task, "plan": plan})
        return PublishOutcome(table=str(relation.name), did=words, job=job)


def _settled(found: Comparison, linked: Linked, table: HiveTable, now_ns: int, watermark: int) -> Comparison:
    """Without partitions that Hive has overwritten a moment ago, of which half may be missing.

    Nor those to which it has added rows that are not merged yet: its readers would not see these any more.
    """
    fresh = {
        name
        for name, ground in linked.grounds.items()
        if ground.appended_through > watermark
        or (ground.lost_ns is not None and now_ns - ground.lost_ns < linked.when.overwrite_ns)
    }
    columns = table.partition_columns
    return Comparison(
        same=found.same - fresh,
        differing={name: record for name, record in found.differing.items() if name not in fresh},
        unknown=tuple(one for one in found.unknown if name_of(columns, one) not in fresh),
    )


def _task(linked: Linked, table: HiveTable, metadata: Json, found: Comparison) -> Json:
    """What the optimizer writes: which partitions of which snapshot, as which columns."""
    names = current_names(metadata)
    columns = [told_column(column, names) for column in table.columns]
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
    head = ref_snapshot_id(metadata, "main")
    return {
        "base": [*linked.relation.name.as_namespace, pinned_name(BASE, head, metadata["current-schema-id"])],
        "columns": columns,
        "own_columns": own,
        "partition_columns": partitioned_by,
        "partitions": [{"name": name, "values": told_values(table, name)} for name in asked],
    }


def _place(uow: UnitOfWork, relation: Relation) -> str:
    """The table's own directory of published partitions; Conflict where some table's clean-up would find it."""
    told: str | None = facts_of(uow, relation).policy["firn.hive.publish.location"]
    root = (told or f"{uow.catalogs.get(relation.catalog).warehouse}/{PLACE}").rstrip("/")
    place = f"{root}/{relation.id}"
    around = [one.location for one in uow.dropped.places_meeting([place], but_for=())]
    if any(lies_in(canonical(place), canonical(one)) for one in around):
        raise Conflict(
            f"{root} lies within a table's own location: what nothing there refers to is deleted one day",
            hint="set firn.hive.publish.location to a directory that is no table's",
        )
    return place
