"""Sync: what Hive-side writers did to a linked table becomes a new snapshot (protocol section 3).

A plain table is synced here, by registering and removing files. A keyed table gets a sync job: rows have to be read,
because a Hive-side load may bring keys that exist. Either way the ground advances in the commit's own transaction.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from catalog.commit import Change
from catalog.datafile import AddSnapshot, DataFileEntry
from catalog.errors import CatalogError, CommitUnknown, NotFound, RequirementFailed
from catalog.hive.drift import Additions, Dropped, New, Rebuild
from catalog.hive.ground import Ground
from catalog.hive.mapping import PROPERTY as NAME_MAPPING
from catalog.hive.mapping import known_aliases, name_mapping
from catalog.hive.model import HiveColumn
from catalog.hive.names import partition_record
from catalog.hive.schema import SchemaConflict, SchemaDrift, schema_changes
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from catalog.job import Job, JobKind
from catalog.names import CatalogName, TableName
from catalog.planning import Due
from catalog.ports.hive import TableFiles
from catalog.ports.store import Database, UnitOfWork
from catalog.relation import Relation, RelationKind
from server.service.commit import CommitRequest, Committer
from server.service.facts import load_metadata
from server.service.hive.index import HiveIndex
from server.service.hive.look import Looked, look
from server.service.hive.state import HiveState, read_state, split_name
from server.service.hive.task import sync_task
from server.service.hive.upgrade import join, link_of
from server.service.metadata import MetadataFiles
from server.service.planner import facts_of, planned_job, planned_relation


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncOutcome:
    """What one sync of one table did."""

    table: str
    did: str
    job: Job | None = None
    conflict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStatus:
    """What one round over all linked tables did."""

    looked_at: int = 0
    changed: int = 0
    conflicts: int = 0
    unavailable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Linked:
    """A linked table and its books, read in one transaction."""

    relation: Relation
    target: Relation
    """What is committed to: the table itself, or the base store."""
    grounds: dict[str, Ground]
    link: dict[str, Any]
    synced_at: datetime
    interval_over: bool
    busy: Job | None


@dataclass(frozen=True)
class Syncs:
    """Syncs linked tables, on schedule and on request; safe to run at any time, any number of times."""

    database: Database
    metadata: MetadataFiles
    committer: Committer
    index: HiveIndex
    files: TableFiles

    def activate(self) -> SyncStatus:
        """Sync every linked table whose interval is over; one whose metastore is away holds up no other."""
        status = SyncStatus()
        with self.database.reading() as uow:
            linked = [one for catalog in uow.catalogs.list() for one in uow.relations.linked_to_hive(catalog.name)]
        for relation in linked:
            with self.database.reading() as uow:
                if not self._linked(uow, relation).interval_over:
                    continue
            status = replace(status, looked_at=status.looked_at + 1)
            try:
                outcome = self.sync(relation.catalog, relation.name)
            except CatalogError:
                status = replace(status, unavailable=status.unavailable + 1)
                continue
            changed = outcome.did != "nothing changed"
            status = replace(status, changed=status.changed + changed, conflicts=status.conflicts + outcome.conflict)
        return status

    def sync(self, catalog: CatalogName, name: TableName, *, everything: bool = False) -> SyncOutcome:
        """Compare a table with Hive and take over what has changed; `everything` lists every directory.

        NotFound when the table is not linked, Unavailable when the metastore or the files do not answer.
        """
        with self.database.reading() as uow:
            relation = planned_relation(uow, catalog, name)
            if relation.hive_name is None:
                raise NotFound(f"{name} is not linked to a Hive table", hint="upgrade a Hive table first")
            linked = self._linked(uow, relation)
        if linked.busy is not None:
            return SyncOutcome(table=str(name), did=f"waits: a {linked.busy.kind} job is {linked.busy.status}")
        try:
            state = read_state(self.index.metastore(catalog), *split_name(relation.hive_name))
        except NotFound:
            return self._conflict(linked, f"the Hive table {relation.hive_name} is gone; nothing was changed here")
        try:
            altered = self._sync_schema(linked, state)
        except SchemaConflict as error:
            return self._conflict(linked, f"{error.message}. {error.hint or ''}".strip())
        if altered:
            with self.database.reading() as uow:
                linked = self._linked(uow, uow.relations.get(relation.id))
        found = look(state, linked.grounds, self.files, everything=everything)
        return self._take_over(linked, state, found, altered)

    def _take_over(self, linked: _Linked, state: HiveState, found: Looked, altered: list[str]) -> SyncOutcome:
        name, did = str(linked.relation.name), "; ".join(altered)
        if not found.changed:
            self._books_alone(linked, state, found)
            waiting = f"waits: {next(iter(found.postponed.values()))}" if found.postponed else "nothing changed"
            return SyncOutcome(table=name, did=did or waiting)
        sentence = "; ".join([*altered, found.sentence or ""])
        if linked.relation.kind is RelationKind.KEYED:
            return SyncOutcome(table=name, did=sentence, job=self._plan(linked, state, found))
        try:
            self._register(linked, state, found)
        except RequirementFailed as error:
            return self._conflict(linked, f"Hive changed files that were changed here too: {error.message}")
        return SyncOutcome(table=name, did=sentence)

    def _linked(self, uow: UnitOfWork, relation: Relation) -> _Linked:
        books = uow.grounds.link(relation.id)
        if books is None:
            raise NotFound(f"{relation.name} is not linked to a Hive table")
        link, synced_at = books
        facts = facts_of(uow, relation)
        target = relation if facts.keyed is None else uow.relations.get(facts.keyed.base_id)
        return _Linked(
            relation=relation,
            target=target,
            grounds={unit: Ground.from_json(stored) for unit, stored in uow.grounds.of(relation.id).items()},
            link=link,
            synced_at=synced_at,
            interval_over=uow.now() - synced_at >= facts.policy["firn.hive.sync.interval"],
            busy=uow.jobs.active_of(relation.id),
        )

    def _conflict(self, linked: _Linked, sentence: str) -> SyncOutcome:
        """Say what differs and leave both sides as they are."""
        with self.database.writing() as uow:
            uow.grounds.put_link(linked.relation.id, {**linked.link, "drift": sentence}, uow.now())
        return SyncOutcome(table=str(linked.relation.name), did=sentence, conflict=True)

    def _sync_schema(self, linked: _Linked, state: HiveState) -> list[str]:
        """Bring changed columns into the table; what was changed, in words."""
        metadata = load_metadata(self.metadata, linked.target)
        synced = [HiveColumn(name=name, type=kind, comment=said) for name, kind, said in linked.link["columns"]]
        drift = schema_changes(synced, state.table.columns, current_schema(metadata), metadata["last-column-id"])
        if drift.changes:
            link = {**linked.link, "columns": link_of(state.table)["columns"]}
            self._alter(linked, metadata, drift, link)
        return drift.changes

    def _alter(self, linked: _Linked, metadata: Json, drift: SchemaDrift, link: Mapping[str, Any]) -> None:
        aliases = known_aliases(metadata["properties"][NAME_MAPPING])
        updates: list[Json] = [
            {"action": "add-schema", "schema": drift.schema, "last-column-id": drift.last_column_id},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "set-properties", "updates": {NAME_MAPPING: name_mapping(drift.schema, aliases)}},
        ]
        unmoved = {"type": "assert-current-schema-id", "current-schema-id": metadata["current-schema-id"]}
        change = Change(name=linked.target.name, requirements=[unmoved], updates=updates)
        self.committer.commit(
            CommitRequest(
                catalog=linked.relation.catalog,
                changes=[change],
                engine="firn sync",
                also=lambda uow: uow.grounds.put_link(linked.relation.id, link, linked.synced_at),
            )
        )

    def _books_alone(self, linked: _Linked, state: HiveState, found: Looked) -> None:
        with self.database.writing() as uow:
            _advance(uow, linked.relation, _books(linked, state, found, replace(found, changed={})))

    def _register(self, linked: _Linked, state: HiveState, found: Looked) -> None:
        """One snapshot of a plain table; see the module for its books."""
        metadata = load_metadata(self.metadata, linked.target)
        added, removed = self._files(linked, state, found, metadata)
        with self.database.reading() as uow:
            now_ms = int(uow.now().timestamp() * 1000)
        snapshot = self.files.write_snapshot(
            metadata,
            added,
            removed,
            snapshot_id=secrets.randbits(62) + 1,
            now_ms=now_ms,
            summary_extra={"firn.reason": f"sync of {linked.relation.hive_name}: {found.sentence}"},
        )
        try:
            self._commit(linked, state, found, metadata, snapshot, added)
        except CommitUnknown:
            raise
        except CatalogError:
            for location in snapshot.written:
                self.files.delete(location)
            raise

    def _commit(
        self,
        linked: _Linked,
        state: HiveState,
        found: Looked,
        metadata: Json,
        snapshot: AddSnapshot,
        added: list[DataFileEntry],
    ) -> None:
        spelled = {alias for entry in added for alias in entry.stats.aliases}
        known = known_aliases(metadata["properties"][NAME_MAPPING])
        mapping = name_mapping(current_schema(metadata), {*known, *spelled})
        renamed: list[Json] = [{"action": "set-properties", "updates": {NAME_MAPPING: mapping}}]
        change = Change(
            name=linked.target.name,
            requirements=snapshot.requirements(),
            updates=[*snapshot.updates(), *(renamed if spelled else [])],
        )
        books = _books(linked, state, found, found)
        self.committer.commit(
            CommitRequest(
                catalog=linked.relation.catalog,
                changes=[change],
                engine="firn sync",
                also=lambda uow: _advance(uow, linked.relation, books),
            )
        )

    def _files(
        self, linked: _Linked, state: HiveState, found: Looked, metadata: Json
    ) -> tuple[list[DataFileEntry], list[str]]:
        locations: list[str] = []
        partitions: list[tuple[Any, ...]] = []
        removed: list[str] = []
        for name, change in found.changed.items():
            if not isinstance(change, Dropped):
                unit = found.units[name]
                files = change.added if isinstance(change, Rebuild) else change.files
                locations += [join(unit.location, file.path) for file in files]
                partitions += [partition_record(state.table.partition_columns, unit.values)] * len(files)
            if isinstance(change, Rebuild | Dropped):
                removed += [join(linked.grounds[name].location, file.path) for file in change.removed]
        stats = self.files.footers(current_schema(metadata), locations)
        entries = [DataFileEntry(stats=one, partition=part) for one, part in zip(stats, partitions, strict=True)]
        return entries, removed

    def _plan(self, linked: _Linked, state: HiveState, found: Looked) -> Job | None:
        """A sync job, with what its commit will make the ground; None when another job came first."""
        metadata = load_metadata(self.metadata, linked.target)
        with self.database.writing() as uow:
            facts = facts_of(uow, linked.relation)
            due = Due(kind=JobKind.SYNC, why=found.sentence or "", state=f"sync {linked.link['generation'] + 1}")
            job = planned_job(linked.relation, due, group=facts.policy["firn.optimize.group"], now=uow.now())
            if not uow.jobs.add(job):
                return None
            task = sync_task(linked.relation, state, found, linked.grounds, linked.link, metadata)
            uow.grounds.stage(job.id, {"books": _books(linked, state, found, found), "task": task})
        return job


def _books(linked: _Linked, state: HiveState, found: Looked, taken: Looked) -> Json:
    """What becomes true with the commit: grounds, and the link."""
    grounds = {name: ground.to_json() for name, ground in found.refreshed.items()}
    for name, change in taken.changed.items():
        if isinstance(change, Additions | New | Rebuild):
            grounds[name] = change.ground.to_json()
    dropped = [name for name, change in taken.changed.items() if isinstance(change, Dropped)]
    generation = linked.link["generation"] + bool(taken.changed)
    link = {**linked.link, "ddl_time": state.table.ddl_time, "generation": generation, "drift": None}
    return {"grounds": grounds, "dropped": dropped, "link": link}


def _advance(uow: UnitOfWork, relation: Relation, books: Json) -> None:
    uow.grounds.put(relation.id, books["grounds"])
    uow.grounds.remove(relation.id, books["dropped"])
    uow.grounds.put_link(relation.id, books["link"], uow.now())


def advance_with_job(uow: UnitOfWork, job: Job, _relation: Relation) -> None:
    """The ground follows a sync job's commit, in its transaction."""
    staged = uow.grounds.staged(job.id)
    if staged is None:
        raise NotFound(f"sync job {job.id} has no listing to take over")
    _advance(uow, uow.relations.get(job.relation_id), staged["books"])


def staged_task(uow: UnitOfWork, job: Job, _relation: Relation) -> Json:
    """What a sync job is told besides the facts of a merge."""
    staged = uow.grounds.staged(job.id)
    task: Json = {} if staged is None else staged["task"]
    return task
