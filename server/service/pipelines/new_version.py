"""Checks a new version of a pipeline against the catalog and all other pipelines, in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from catalog.errors import AlreadyExists, Conflict, Invalid, InvalidDefinition, NoSuchTable
from catalog.names import CatalogName, TableName, fold_case
from catalog.pipelines.graph import check_no_cycle
from catalog.pipelines.pipeline import Pipeline, PipelineTable, PipelineVersion, name_writer
from catalog.pipelines.versions import check_keys, check_rebuilds, compare_versions, parse_inputs
from catalog.policy.schedule import parse_schedule
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import RelationKind
from firn.protocol.pipeline_outputs import OutputMode
from firn.protocol.pipeline_quarantine import name_quarantine
from firn.protocol.pipelines import PutPipeline, TableChange, TableDefinition, TriggerKind
from server.service.commit.commit_target import check_namespace
from server.service.pipelines.targets import check_quarantine, check_target, find_checkpoint, find_target

_INPUTS = (RelationKind.TABLE, RelationKind.KEYED)
Definitions = Mapping[TableName, TableDefinition]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVersion:
    """A checked new version, and what it does."""

    pipeline: Pipeline | None
    """The pipeline before it; None if it creates the pipeline."""
    tables: Mapping[TableName, PipelineTable]
    """The tables before it."""
    definitions: Definitions
    changes: Sequence[TableChange]
    is_different: bool
    """Whether anything differs from the newest version."""


def check_new_version(uow: UnitOfWork, name: str, body: PutPipeline, definitions: Definitions) -> NewVersion:
    """Check a version; raises as `PipelineDefinitions.put`."""
    catalog = CatalogName(body.catalog)
    uow.catalogs.get(catalog)
    pipeline = uow.pipelines.find(name)
    if pipeline is not None and pipeline.catalog != catalog:
        raise Conflict(
            f"pipeline {name} belongs to catalog {pipeline.catalog}", hint="drop it first, or choose another name"
        )
    stored = [] if pipeline is None else uow.pipelines.tables_of([pipeline.id])[pipeline.id]
    _check_tables(uow, name, catalog, pipeline, definitions)
    before = {table.name: table.definition for table in stored}
    built = {} if pipeline is None else _find_built(uow, pipeline, stored)
    if not body.dry_run:
        check_keys(before, definitions, built)
        if not body.rebuild:
            check_rebuilds(before, definitions, built)
    return NewVersion(
        pipeline=pipeline,
        tables={table.name: table for table in stored},
        definitions=definitions,
        changes=compare_versions(before, definitions, built),
        is_different=pipeline is None or _differs(uow.pipelines.get_version(pipeline.id, pipeline.version), body),
    )


def _differs(newest: PipelineVersion, body: PutPipeline) -> bool:
    stored = (list(newest.files), list(newest.tables), list(newest.deterministic))
    return stored != (body.files, body.tables, body.deterministic)


def _find_built(uow: UnitOfWork, pipeline: Pipeline, tables: Sequence[PipelineTable]) -> dict[TableName, str]:
    """The fingerprints of the queries that the rows of built tables come from."""
    checkpoints = {table.name: find_checkpoint(uow, pipeline, table) for table in tables}
    return {name: checkpoint.fingerprint for name, checkpoint in checkpoints.items() if checkpoint is not None}


def _check_tables(
    uow: UnitOfWork, name: str, catalog: CatalogName, pipeline: Pipeline | None, definitions: Definitions
) -> None:
    """Check the tables together with those of all other pipelines: targets, inputs and cycles."""
    edges: dict[TableName, Sequence[TableName]] = {
        table: inputs
        for table, (owner, inputs) in uow.pipelines.list_inputs(catalog).items()
        if pipeline is None or owner != pipeline.id
    }
    written = {fold_case(str(table)) for table in edges}
    for table, definition in definitions.items():
        if fold_case(str(table)) in written:
            raise AlreadyExists(
                f"another pipeline writes {table} ({_place(definition)})",
                hint="only one pipeline writes a table: give this one another name",
            )
        is_columns = definition.output_mode is OutputMode.COLUMNS  # which may read the other columns of its table
        edges[table] = [source for source in parse_inputs(definition) if not (is_columns and source == table)]
    written |= {fold_case(str(table)) for table in definitions}
    check_no_cycle(_follow_quarantines(edges))
    for table, definition in definitions.items():
        _check_trigger(definition)
        name_writer(name, table)
        check_namespace(uow, catalog, table.namespace)
        check_target(find_target(uow, name, catalog, table), definition)
        _check_inputs(uow, catalog, definition, edges)
        _check_quarantine(uow, name, catalog, definition, written)


def _follow_quarantines(edges: Mapping[TableName, Sequence[TableName]]) -> dict[TableName, Sequence[TableName]]:
    """Whoever reads the quarantine of a table reads what the table's runs write: it could start them again."""
    owners = {fold_case(name_quarantine(str(table))): table for table in edges}
    return {
        table: [*inputs, *(owners[key] for key in map(fold_case, map(str, inputs)) if key in owners)]
        for table, inputs in edges.items()
    }


def _check_quarantine(
    uow: UnitOfWork, pipeline: str, catalog: CatalogName, definition: TableDefinition, written: Collection[str]
) -> None:
    """Check that the table for dropped rows is, or can be, one of this pipeline."""
    if definition.quarantine is None:
        return
    name = TableName.parse(definition.quarantine)
    if fold_case(str(name)) in written:
        raise AlreadyExists(
            f"{definition.name} drops rows into {name}, which a pipeline writes ({_place(definition)})",
            hint="give one of both tables another name, or choose another severity than `drop`",
        )
    name_writer(pipeline, name)
    check_quarantine(uow, pipeline, catalog, name)


def _check_inputs(
    uow: UnitOfWork, catalog: CatalogName, definition: TableDefinition, written: Collection[TableName]
) -> None:
    """Check that each input is a table, or becomes one because a pipeline writes it."""
    for table in parse_inputs(definition):
        relation = uow.relations.find(catalog, table)
        if relation is None and table not in written:
            raise NoSuchTable(f"{definition.name} reads {table}, which does not exist ({_place(definition)})")
        if relation is not None and relation.kind not in _INPUTS:
            raise InvalidDefinition(
                f"{definition.name} reads {table}, which is a {relation.kind} ({_place(definition)})",
                hint="read tables, and no views or stores",
            )


def _check_trigger(definition: TableDefinition) -> None:
    """Raise InvalidDefinition for a trigger that lacks what its kind needs, or whose schedule makes no sense."""
    trigger = definition.trigger
    if trigger.kind is TriggerKind.FRESH and trigger.fresh_within_seconds is None:
        raise InvalidDefinition(f"the trigger of {definition.name} names no time ({_place(definition)})")
    if trigger.kind is TriggerKind.CRON:
        try:
            parse_schedule(trigger.cron or "")
        except Invalid as error:
            raise InvalidDefinition(
                f"{definition.name}: {error.message} ({_place(definition)})", hint=error.hint
            ) from error


def _place(definition: TableDefinition) -> str:
    return f"{definition.path}, line {definition.line}"
