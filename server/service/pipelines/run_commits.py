"""The parts of a run's commit: snapshots of its own writers, and steps of positions without one."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.commits.writers import Progress, name_writer_with_progress, read_progress
from catalog.errors import CommitRefused, NoSuchTable
from catalog.history.commit import TableCommit
from catalog.iceberg.updates import parse_updates
from catalog.keyed.spec import CHANGE
from catalog.names import TableName
from catalog.pipelines.pipeline import Pipeline, PipelineTable, name_writer
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import RelationKind
from firn.protocol.pipeline_pins import MoveCheckpoint
from firn.protocol.pipelines import TableChanges
from server.service.pipelines.pins import find_table
from server.service.pipelines.targets import find_quarantine, get_target

_ACTIONS = frozenset({"add-snapshot", "set-snapshot-ref"})


def build_change(
    uow: UnitOfWork, pipeline: Pipeline, tables: Sequence[PipelineTable], change: TableChanges
) -> TableCommit:
    """The commit on the table, or on the change store of a keyed one.

    Raises CommitRefused for anything but a snapshot of the run's own writer, and NoSuchTable.
    """
    table = find_table(tables, TableName.parse(change.table))
    _, progress = read_step(pipeline, table, change)
    target = get_target(uow, pipeline, table)
    if uow.checkpoints.find(table.id, progress.end) is None:
        raise CommitRefused(f"{progress.end!r} is no checkpoint of {table.name}")
    is_keyed = target.relation.kind is RelationKind.KEYED
    name = TableName(table.name.as_namespace, CHANGE) if is_keyed else table.name
    return TableCommit(name=name, requirements=change.requirements, updates=parse_updates(change.updates))


def build_quarantine_change(
    uow: UnitOfWork, pipeline: Pipeline, tables: Sequence[PipelineTable], change: TableChanges
) -> TableCommit:
    """The commit on the quarantine of a table (docs/protocols.md, rule 8.22). Raises as `build_change`."""
    table = find_table(tables, TableName.parse(change.table))
    name = table.definition.quarantine
    if name is None:
        raise CommitRefused(f"no validator of {table.name} drops rows")
    quarantine = TableName.parse(name)
    _check_own(name_writer(pipeline.name, quarantine), quarantine, change)
    if find_quarantine(uow, pipeline.name, table) is None:
        raise NoSuchTable(f"Table does not exist: {quarantine}")
    return TableCommit(name=quarantine, requirements=change.requirements, updates=parse_updates(change.updates))


def read_step(pipeline: Pipeline, table: PipelineTable, step: TableChanges | MoveCheckpoint) -> tuple[str, Progress]:
    """The writer's name, and its step from one position to the next. Raises CommitRefused as `build_change`."""
    writer = name_writer(pipeline.name, table.name)
    if isinstance(step, MoveCheckpoint):
        return writer, Progress(writer=writer, epoch=step.epoch, start=step.start, end=step.end, snapshot_id=0)
    return writer, _check_own(writer, table.name, step)


def _check_own(writer: str, table: TableName, change: TableChanges) -> Progress:
    """The step of the writer in a commit. Raises CommitRefused for anything but a snapshot of this writer."""
    updates = parse_updates(change.updates)
    progress = read_progress(updates)
    is_own = {update["action"] for update in updates} == _ACTIONS and name_writer_with_progress(updates) == writer
    if progress is None or not is_own:
        raise CommitRefused(f"a run of {table} commits snapshots of the writer {writer!r} alone")
    return progress
