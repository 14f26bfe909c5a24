"""Requests for jobs on one table: one route for every kind in catalog.maintenance, and its dry run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, Field, fields
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from fastapi import APIRouter, Query
from pydantic import Field as Described
from pydantic import RootModel, create_model

from catalog.jobs.job import JobKind
from catalog.maintenance import KINDS, JobOptions, MaintenanceKind, kind_of
from catalog.planning.dry_run_result import DryRunResult
from firn.protocol.answers.jobs import AffectedItemsOut, DryRunOut, JobOut
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, ServicesDep, TableDep
from server.api.errors import refusals
from server.api.jobs import build_job_out

router = APIRouter(prefix="/catalogs/{catalog}/tables", tags=["tables"])


class JobIn(In):
    """The common fields of requests for jobs of all kinds."""

    kind: JobKind
    options: In

    @property
    def job_options(self) -> JobOptions:
        """The options as the class of the kind."""
        return kind_of(self.kind).options(
            **{name: getattr(self.options, name) for name in type(self.options).model_fields}
        )


def create_request_model(kind: MaintenanceKind) -> type[JobIn]:
    """Create the model of a request for a job of this kind, with the fields of the kind's options."""
    prefix = "".join(word.title() for word in kind.name.split("-"))
    types = get_type_hints(kind.options)
    option_fields: dict[str, Any] = {
        field.name: (types[field.name], _get_default(field)) for field in fields(kind.options)
    }
    description = "This kind has no options." if kind.options is JobOptions else kind.options.__doc__
    options = create_model(f"{prefix}OptionsIn", __base__=In, __doc__=description, **option_fields)
    job_fields: dict[str, Any] = {"kind": (Literal[kind.name], ...), "options": (options, options())}
    return create_model(f"{prefix}JobIn", __base__=JobIn, __doc__=f"A job of the kind `{kind.name}`.", **job_fields)


def _get_default(field: Field[Any]) -> Any:
    """Get the default of an option; TypeError without one, since every option of a request is optional."""
    if field.default is MISSING:
        raise TypeError(f"the option {field.name} has no default")
    return field.default


def build_request_union(kinds: Iterable[MaintenanceKind]) -> Any:
    """Build the union of the request models of these kinds, discriminated by `kind`."""
    models: list[Any] = [create_request_model(kind) for kind in kinds if kind.can_request]
    return Annotated[reduce(or_, models), Described(discriminator="kind")]


if TYPE_CHECKING:
    AnyJobIn = JobIn
else:
    AnyJobIn = build_request_union(KINDS)


class StartJobIn(RootModel[AnyJobIn]):
    """The kind of the job, and the options of this kind."""


@router.post(
    "/{table}/jobs", status_code=202, summary="Start a job", responses=refusals(400, 404, 409), name="start_job"
)
def start_job(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    body: StartJobIn,
    *,
    dry_run: Annotated[bool, Query(description="report what the job would do, without starting it")] = False,
) -> JobOut | DryRunOut:
    """Start a maintenance job now; 409 while another job is active on the table.

    A dry run reports what the job would do. The dry run of orphan removal lists every file, so it is a job too.
    """
    kind, params = kind_of(body.root.kind), body.root.job_options.as_params()
    if dry_run and kind.dry_run_params is None:
        return build_dry_run_out(kind.name, services.dry_runs.run(catalog, table, kind.name, params))
    if dry_run:
        params |= kind.dry_run_params or {}
    services.dry_runs.check(catalog, table, kind.name, params)
    nothing = services.dry_runs.finds_nothing(catalog, table, kind.name, params)
    return build_job_out(services.planner.run_now(catalog, table, kind.name, params, nothing_to_do=nothing))


def build_dry_run_out(kind: JobKind, result: DryRunResult) -> DryRunOut:
    """Build the answer from a dry run."""
    affected = [AffectedItemsOut(items=items.items, count=items.count, bytes=items.bytes) for items in result.affected]
    return DryRunOut(
        kind=kind,
        action=result.action,
        affected=affected,
        gain=dict(result.gain),
        exact=result.exact,
        notes=list(result.notes),
        is_empty=result.is_empty,
    )
