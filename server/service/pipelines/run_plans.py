"""Plans of the next runs for people: what each one does, and what has changed in its inputs since the checkpoint.

Statements of the database do not depend on the number of tables, but for keyed inputs; metadata files are read once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from catalog.errors import CatalogError
from catalog.history.lineage import Lineage
from catalog.jobs.job import Job
from catalog.keyed.spec import Version
from catalog.names import CatalogName, RelationId, TableName
from catalog.pipelines.checkpoint import InputState, explain_full, is_fallback
from catalog.pipelines.input_changes import ChangeCounts, PlainChangeCounter, count_keyed_changes
from catalog.pipelines.pipeline import Pipeline, PipelineTable, StoredCheckpoint, StoredPin
from catalog.pipelines.run_plan import RunFacts, RunPlan, plan_run
from catalog.pipelines.versions import parse_inputs
from catalog.ports.store import Database
from catalog.tables.relation import RelationKind, TableStats
from firn.protocol.pipeline_plan import NextMode
from server.service.commit.commit_target import load_metadata
from server.service.pipelines.input_states import load_input_state
from server.service.pipelines.pin_inputs import InputNow, find_pin
from server.service.pipelines.runs import get_table
from server.service.pipelines.sets import find_subjects
from server.service.pipelines.states import sort_tables
from server.service.pipelines.table_facts import StoredState, TableFacts, get_in_chunks, read_states
from server.service.tables.metadata_files import MetadataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedInput:
    """An input of a table. Counts are None if nobody can tell them."""

    name: TableName
    is_changed: bool | None
    changed_at: datetime | None
    counts: ChangeCounts | None
    total_bytes: int | None
    """None for an input that does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """The next run of a table."""

    table: PipelineTable
    plan: RunPlan
    inputs: Sequence[PlannedInput]
    state: StoredState
    last_run: Job | None
    blocked: str | None
    """Why no run can begin now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPipeline:
    """The next runs of a pipeline's tables, each after those that it reads."""

    pipeline: Pipeline
    at: datetime
    runs: Sequence[PlannedRun]


@dataclass(slots=True)
class _Sources:
    """The tables that runs read and write, as one transaction has read them, and their histories so far."""

    metadata: MetadataFiles
    entries: Mapping[TableName, InputNow]
    stats: Mapping[RelationId, TableStats]
    versions: Mapping[tuple[RelationId, str], Version]
    states: dict[tuple[TableName, str | None, int | None], InputState] = field(default_factory=dict)
    counters: dict[TableName, PlainChangeCounter] = field(default_factory=dict)
    counts: dict[tuple[TableName, str | None], ChangeCounts] = field(default_factory=dict)

    def read_bytes(self, name: TableName) -> int:
        """The bytes of a table; 0 for one that does not exist yet."""
        entry = self.entries.get(name)
        return 0 if entry is None else sum(self.stats[store.id].bytes for store in entry.stores)

    def is_empty(self, name: TableName) -> bool:
        """Whether no store of a table has a snapshot."""
        entry = self.entries.get(name)
        return entry is None or all(self.stats[store.id].snapshot_id is None for store in entry.stores)

    def load_state(self, name: TableName, since: StoredCheckpoint) -> InputState:
        """The history of an input, which tables with equal pins of a keyed one, or any pins of a plain one, share."""
        entry = self.entries[name]
        stored = find_pin(since, entry)
        pinned = None if stored is None or entry.keyed is None else stored.pin.version
        key = name, pinned, None if stored is None else stored.schema_id
        if key not in self.states:
            self.states[key] = self._load_state(entry, stored, since)
        return self.states[key]

    def _load_state(self, entry: InputNow, stored: StoredPin | None, since: StoredCheckpoint) -> InputState:
        version = None if stored is None else self.versions.get((entry.relation.id, stored.pin.version or ""))
        dated = entry if version is None else replace(entry, versions=(version,))
        return load_input_state(self.metadata, dated, since)

    def count(self, name: TableName, pinned: str | None) -> ChangeCounts:
        """The changes of an input since its pin, which is in its history."""
        if (name, pinned) not in self.counts:
            self.counts[name, pinned] = self._count(self.entries[name], pinned)
        return self.counts[name, pinned]

    def _count(self, entry: InputNow, pinned: str | None) -> ChangeCounts:
        if entry.keyed is None:
            if entry.name not in self.counters:
                lineage = Lineage.of(load_metadata(self.metadata, entry.stores[0]))
                self.counters[entry.name] = PlainChangeCounter(lineage)
            return self.counters[entry.name].count(None if pinned is None else int(pinned), entry.snapshot_id)
        base, change = [load_metadata(self.metadata, store) for store in entry.stores]
        return count_keyed_changes(base, change, self.versions.get((entry.relation.id, pinned or "")))


@dataclass(frozen=True)
class RunPlans:
    """Plans the next runs of pipelines' tables; nothing is locked or stored."""

    database: Database
    metadata: MetadataFiles

    def plan(self, name: str, table: TableName | None = None) -> PlannedPipeline:
        """The next runs of a pipeline's tables, or of one of them; NotFound."""
        with self.database.reading() as uow:
            pipeline, at = uow.pipelines.get(name), uow.now()
            tables = sort_tables(uow.pipelines.tables_of([pipeline.id])[pipeline.id])
            subjects = find_subjects(tables)
            if table is not None:
                tables = [get_table(uow, pipeline, table)]
            facts = TableFacts(uow)
            states = read_states(uow, [(pipeline, tables)], facts)
            last_runs = uow.pipeline_facts.find_last_runs({subjects[entry.id] for entry in tables})
            sources = self._read_sources(facts, pipeline, tables, [states[entry.id] for entry in tables])
        runs = [self._plan(entry, states[entry.id], last_runs.get(subjects[entry.id]), sources) for entry in tables]
        return PlannedPipeline(pipeline=pipeline, at=at, runs=runs)

    def _read_sources(
        self, facts: TableFacts, pipeline: Pipeline, tables: Sequence[PipelineTable], states: Sequence[StoredState]
    ) -> _Sources:
        names = dict.fromkeys(name for table in tables for name in (table.name, *parse_inputs(table.definition)))
        entries, stats = _read_entries(facts, pipeline.catalog, names)
        pinned = {
            (stored.relation_id, stored.pin.version)
            for state in states
            for stored in (() if state.checkpoint is None else state.checkpoint.pins)
            if stored.pin.keyed and stored.pin.version is not None
        }
        versions = {
            (relation_id, str(version.version)): version
            for relation_id, number in pinned
            for version in facts.uow.keyed.versions_between(relation_id, int(number), int(number))
        }
        return _Sources(self.metadata, entries, stats, versions)

    def _plan(self, table: PipelineTable, state: StoredState, last_run: Job | None, sources: _Sources) -> PlannedRun:
        try:
            plan, inputs = self._decide(table, state, sources)
        except CatalogError as error:  # as of a metadata file that has gone: the run would fail, too
            plan, inputs = RunPlan(NextMode.FAILS, error.message), []
        blocked = _explain_blocked(state, last_run)
        return PlannedRun(table=table, plan=plan, inputs=inputs, state=state, last_run=last_run, blocked=blocked)

    def _decide(
        self, table: PipelineTable, state: StoredState, sources: _Sources
    ) -> tuple[RunPlan, Sequence[PlannedInput]]:
        names, checkpoint = parse_inputs(table.definition), state.checkpoint
        missing = [name for name in names if name not in sources.entries]
        reason = None if missing else _explain(table, state, names, sources)
        goes_on = checkpoint is not None and not missing and reason is None
        inputs = [_plan_input(name, state, sources, goes_on=goes_on) for name in names]
        facts = RunFacts(
            full_reason=reason,
            is_fallback=is_fallback(table, state.position, checkpoint, asked_full=False),
            changed=[*state.changes],
            has_chunks=state.has_chunks,
            is_empty=sources.is_empty(table.name),
            measured={str(entry.name): _measure(entry, sources) for entry in inputs},
            target_bytes=sources.read_bytes(table.name),
        )
        if missing:
            reason = f"{table.name} reads {missing[0]}, and there is no table of this name"
            return RunPlan(NextMode.FAILS, reason), inputs
        return plan_run(table.definition, facts), inputs


def _explain(table: PipelineTable, state: StoredState, names: Sequence[TableName], sources: _Sources) -> str | None:
    """Why the next run is full whatever has changed (docs/protocols.md, rule 8.5).

    It does not read the inputs of a table that is not built.
    """
    checkpoint = state.checkpoint
    needs_states = checkpoint is not None and checkpoint.fingerprint == table.definition.fingerprint
    inputs = {name: sources.load_state(name, checkpoint) for name in names} if checkpoint and needs_states else {}
    return explain_full(table, state.position, checkpoint, inputs, asked_full=False)


def _plan_input(name: TableName, state: StoredState, sources: _Sources, *, goes_on: bool) -> PlannedInput:
    is_changed = None if state.checkpoint is None else str(name) in state.changes
    counts = None
    if goes_on and state.checkpoint is not None:
        stored = find_pin(state.checkpoint, sources.entries[name])
        counts = None if stored is None else sources.count(name, stored.pin.version)
    return PlannedInput(
        name=name,
        is_changed=is_changed,
        changed_at=state.changes.get(str(name)),
        counts=counts,
        total_bytes=sources.read_bytes(name) if name in sources.entries else None,
    )


def _measure(entry: PlannedInput, sources: _Sources) -> tuple[int, int]:
    """The bytes of an input's changes, and of all of it, as the optimizer measures them."""
    source = sources.entries.get(entry.name)
    if source is None:
        return 0, 0
    if source.keyed is not None:  # what is not merged yet
        return sources.stats[source.keyed.change_id].bytes, entry.total_bytes or 0
    return 0 if entry.counts is None else entry.counts.bytes, entry.total_bytes or 0


def _explain_blocked(state: StoredState, last_run: Job | None) -> str | None:
    if state.held is not None:
        return f"run {state.held.job_id} waits for approval"
    if last_run is not None and last_run.status.is_active:
        return f"run {last_run.id} is {last_run.status}"
    return None


def _read_entries(
    facts: TableFacts, catalog: CatalogName, names: Collection[TableName]
) -> tuple[dict[TableName, InputNow], Mapping[RelationId, TableStats]]:
    """Tables as `pin_inputs.read_input` reads them, in a fixed number of statements; those that do not exist miss.

    Of what the states of the tables have needed, nothing is read again.
    """
    facts.load([(catalog, name) for name in names])
    named = ((name, facts.relations.get((catalog, name))) for name in names)
    tables = {name: of for name, of in named if of is not None and of.kind in (RelationKind.TABLE, RelationKind.KEYED)}
    keyed = {of.id: facts.keyed[of.id] for of in tables.values() if of.id in facts.keyed}
    parts = [part for of in keyed.values() for part in (of.base_id, of.change_id)]
    stores = {of.id: of for of in tables.values()} | get_in_chunks(facts.uow.relations.get_many, parts)
    facts.load_stats_of(stores)
    entries = {}
    for name, relation in tables.items():
        spec = keyed.get(relation.id)
        ids = [relation.id] if spec is None else [spec.base_id, spec.change_id]
        if all(store_id in stores and store_id in facts.stats for store_id in ids):
            entries[name] = InputNow(
                name=name,
                relation=relation,
                keyed=spec,
                stores=tuple(stores[store_id] for store_id in ids),
                snapshot_id=facts.stats[ids[0]].snapshot_id if spec is None else None,
                schema_id=facts.stats[ids[0]].schema_id,
            )
    return entries, facts.stats
