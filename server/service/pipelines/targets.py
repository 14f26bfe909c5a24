"""The tables that pipelines write: where their writers commit, and how far they have come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from catalog.commits.positions import NO_POSITION
from catalog.commits.writers import Writer, register_writer
from catalog.errors import Conflict, NoSuchTable
from catalog.jobs.job import cancel_job
from catalog.keyed.spec import KeySpec
from catalog.names import CatalogName, RelationId, TableName
from catalog.pipelines.pipeline import RESET, Pipeline, PipelineTable, StoredCheckpoint, name_writer
from catalog.policy.policy import Policy, merge_layers
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.pipeline_outputs import OutputMode
from firn.protocol.pipelines import TableDefinition
from server.service.access.caller import caller
from server.service.planning.policies import load_policy_layers, load_stored_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The table in the catalog that a pipeline writes."""

    relation: Relation
    store_id: RelationId
    """The plain table itself, or the change store of a keyed one: the writer commits there."""
    has_snapshots: bool
    writer: Writer | None
    """The pipeline's writer; None before its first run on this table."""
    spec: KeySpec | None = None
    """The facts of a keyed table; None for a plain one."""


def find_target(uow: UnitOfWork, pipeline: str, catalog: CatalogName, name: TableName) -> Target | None:
    """The target of this name; None if there is none yet. Conflict for a view, and for a store of a keyed table."""
    relation = uow.relations.find(catalog, name)
    if relation is None:
        return None
    if relation.kind not in (RelationKind.TABLE, RelationKind.KEYED):
        raise Conflict(f"{name} is a {relation.kind}, which no pipeline writes", hint="choose another name")
    stores, spec = [relation.id], None
    if relation.kind is RelationKind.KEYED:
        keyed = uow.keyed.get(relation.id)
        stores, spec = [keyed.change_id, keyed.base_id], keyed.spec
    counters = uow.stats.get_many(stores).values()
    return Target(
        relation=relation,
        store_id=stores[0],
        has_snapshots=any(stats.snapshot_id is not None for stats in counters),
        writer=uow.writers.find(stores[0], name_writer(pipeline, name)),
        spec=spec,
    )


def get_target(uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable) -> Target:
    """The target of a pipeline's table; NoSuchTable."""
    target = find_target(uow, pipeline.name, table.catalog, table.name)
    if target is None:
        raise NoSuchTable(f"Table does not exist: {table.name}")
    return target


def forget_held(uow: UnitOfWork, table: PipelineTable) -> None:
    """Forget the held run of a table whose writer the transaction has fenced, with all tables of that run."""
    held = uow.held_runs.find([table.id]).get(table.id)
    if held is not None:
        tables = uow.pipelines.tables_of([table.pipeline_id])[table.pipeline_id]
        parts = uow.held_runs.find([entry.id for entry in tables]).values()
        uow.held_runs.remove([part.table_id for part in parts if part.job_id == held.job_id])


def check_not_held(uow: UnitOfWork, pipeline: Pipeline, tables: Sequence[PipelineTable]) -> None:
    """Raise Conflict while a run of one of these tables waits for approval (rule 8.17)."""
    held = uow.held_runs.find([table.id for table in tables])
    for table in tables:
        if table.id in held and held[table.id].published_at is None:
            raise Conflict(
                f"run {held[table.id].job_id} of {table.name} waits for approval",
                hint=f"`firn pipeline publish {pipeline.name} {table.name}` lets readers see its rows, "
                f"`firn pipeline discard {pipeline.name} {table.name}` forgets them; then run again",
            )


def check_target(target: Target | None, definition: TableDefinition) -> None:
    """Raise Conflict for a table with rows that the pipeline has never written: its first run would delete them.

    A pipeline that fills columns needs a table of others instead; Conflict without one, or without its key. Conflict
    also for a table that would leave out computed rows.
    """
    name = definition.name
    if target is not None and target.spec is not None:
        _check_takes_all_rows(name, target.spec)
    if definition.output_mode is OutputMode.COLUMNS:
        if target is None or target.relation.kind is not RelationKind.KEYED:
            raise Conflict(
                f"{name} is no table with a key, and the pipeline fills columns of one",
                hint="create it, with the properties firn.primary-key and firn.partial",
            )
        return
    if target is not None and target.has_snapshots and target.writer is None:
        raise Conflict(
            f"{name} has rows that the pipeline has not written, and a run would replace them",
            hint="give the pipeline's table another name, or drop or rename this one",
        )


def _check_takes_all_rows(name: str, spec: KeySpec) -> None:
    """Raise Conflict for a table that ignores some changes: a run would count rows as written that no reader sees."""
    own = "let the pipeline create its table under another name, or drop or rename this one"
    if spec.sequence_field is not None:
        raise Conflict(
            f"{name} has the sequence field {spec.sequence_field} (firn.sequence-field): it would ignore a computed "
            "row whose value there is lower than that of the row before",
            hint=own,
        )
    if spec.is_insert_only:
        raise Conflict(f"{name} is insert-only (firn.insert-only): it would ignore changes of its rows", hint=own)


def find_quarantine(uow: UnitOfWork, pipeline: str, table: PipelineTable) -> Target | None:
    """The quarantine of a pipeline's table; None if it has none, or none yet. Conflict as `check_quarantine`."""
    name = table.definition.quarantine
    return None if name is None else check_quarantine(uow, pipeline, table.catalog, TableName.parse(name))


def check_quarantine(uow: UnitOfWork, pipeline: str, catalog: CatalogName, name: TableName) -> Target | None:
    """The table of this name; None if there is none. Conflict for one that is not a quarantine of this pipeline."""
    target = find_target(uow, pipeline, catalog, name)
    if target is None:
        return None
    if target.relation.kind is RelationKind.KEYED or (target.has_snapshots and target.writer is None):
        raise Conflict(
            f"{name} would get the rows that validators drop, and it is another table",
            hint="rename that table, or choose another severity than `drop`",
        )
    return target


def find_checkpoint(uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable) -> StoredCheckpoint | None:
    """The checkpoint of a table: the pins at the position of its writer. None if its next run computes all rows."""
    target = find_target(uow, pipeline.name, table.catalog, table.name)
    if target is None or target.writer is None or target.writer.position == NO_POSITION:
        return None
    return uow.checkpoints.find(table.id, target.writer.position)


def end_runs(uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable, reason: str) -> None:
    """Cancel the run of a table that leaves its pipeline, and keep its copies from committing after this transaction.

    If a pipeline of this name gets the table again, its first run computes all rows, as a first run should. Commits
    lock the job first, so this does, too.
    """
    active = uow.jobs.active_of(table.id)
    job = None if active is None else uow.jobs.lock(active.id)
    if job is not None and job.status.is_active:
        uow.jobs.put(cancel_job(replace(job, error=reason), uow.now()))
        uow.jobs.add_log(job.id, [reason], uow.now())
    fence_writer(uow, pipeline.name, table, resets=True)
    forget_held(uow, table)


def fence_writer(uow: UnitOfWork, pipeline: str, table: PipelineTable, *, resets: bool = False) -> None:
    """Increment the epoch of a table's writer: the server refuses earlier copies (docs/protocols.md, rule 6.2).

    With `resets` it also moves the position to a new one without a checkpoint (rule 8.8).
    """
    target = find_target(uow, pipeline, table.catalog, table.name)
    writer = None if target is None or target.writer is None else uow.writers.lock(target.store_id, target.writer.name)
    if writer is not None and writer.fenced_at is None:
        fenced = register_writer(writer, uow.now(), caller.get().principal)
        uow.writers.put(replace(fenced, position=f"{RESET}{uuid4()}") if resets else fenced)


def load_target_policy(uow: UnitOfWork, catalog: CatalogName, name: TableName) -> Policy:
    """The policy of a target; before it exists, that of its namespace."""
    relation = uow.relations.find(catalog, name)
    if relation is None:
        return merge_layers(load_policy_layers(uow, catalog, name.namespace))
    return load_stored_policy(uow, relation)
