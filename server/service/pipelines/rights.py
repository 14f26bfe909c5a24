"""The rights of a pipeline's owner, with which its runs read inputs and write tables."""

from __future__ import annotations

from catalog.access.privileges import SERVER, PrincipalId, Privilege, Rights, Securable
from catalog.errors import Conflict
from catalog.names import TableName
from catalog.pipelines.pipeline import Pipeline, PipelineTable
from catalog.pipelines.versions import parse_inputs
from catalog.ports.store import UnitOfWork
from server.service.access.token_check import build_caller


def check_owner(uow: UnitOfWork, pipeline: Pipeline, table: PipelineTable, *, is_built: bool) -> None:
    """Raise Conflict unless the owner may still read all inputs, and write the table, or create it if it is missing.

    Runs check it each time, because somebody may have taken a privilege from the owner since the last one.
    """
    rights = _load_rights(uow, pipeline)
    target = Securable.of(table.catalog, table.name)
    needed = [(Privilege.READ, Securable.of(table.catalog, name)) for name in parse_inputs(table.definition)]
    needed.append((Privilege.WRITE, target))
    quarantine = table.definition.quarantine
    is_complete = is_built
    if quarantine is not None:
        name = TableName.parse(quarantine)
        needed.append((Privilege.WRITE, Securable.of(table.catalog, name)))
        is_complete = is_built and uow.relations.find(table.catalog, name) is not None
    if table.definition.has_code:
        needed.append((Privilege.MAINTAIN, SERVER))
    if not is_complete:
        needed.append((Privilege.CREATE, Securable(table.catalog, table.name.namespace)))
    for privilege, on in needed:
        if not rights.has(privilege, on):
            raise Conflict(
                f"{pipeline.owner}, the owner of pipeline {pipeline.name}, may not {privilege} {on}",
                hint=f"grant the privilege, or let somebody who has it put the pipeline: `firn pipeline put` ({on})",
            )


def _load_rights(uow: UnitOfWork, pipeline: Pipeline) -> Rights:
    owner = None if pipeline.owner_id is None else uow.principals.find(PrincipalId(pipeline.owner_id))
    if owner is None or owner.disabled:
        name = "no owner" if pipeline.owner is None else f"the owner {pipeline.owner}, who is disabled or removed"
        raise Conflict(
            f"pipeline {pipeline.name} has {name}, so nobody's rights allow its runs",
            hint="let somebody with the privileges put it again: `firn pipeline put`",
        )
    return build_caller(uow, owner).rights
