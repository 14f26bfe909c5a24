"""Jobs on one table, as people request them: one route for every kind in catalog.maintenance, and its dry run."""

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
from catalog.planning.dry_run import DryRunResult
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, Out, ServicesDep, TableDep
from server.api.errors import refusals
from server.api.jobs import JobOut

router = APIRouter(prefix="/catalogs/{catalog}/tables", tags=["tables"])


class AffectedItemsOut(Out):
    """Things of one kind that a job would touch, or leave."""

    items: str
    count: int
    bytes: int | None


class DryRunOut(Out):
    """What a dry run says would be done, to what, and what would be gained.

    Where it is not exact the numbers are estimates, and a note says of what.
    """

    kind: JobKind
    action: str
    affected: list[AffectedItemsOut]
    gain: dict[str, int]
    exact: bool
    notes: list[str]
    is_empty: bool
    """Whether it is certain that the job would change nothing."""

    @classmethod
    def of(cls, kind: JobKind, result: DryRunResult) -> DryRunOut:
        """A dry run as it is shown."""
        affected = [
            AffectedItemsOut(items=items.items, count=items.count, bytes=items.bytes) for items in result.affected
        ]
        return cls(
            kind=kind,
            action=result.action,
            affected=affected,
            gain=dict(result.gain),
            exact=result.exact,
            notes=list(result.notes),
            is_empty=result.is_empty,
        )


class JobIn(In):
    """What the request for a job of any kind has."""

    kind: JobKind
    options: In

    @property
    def job_options(self) -> JobOptions:
        """The options as the kind itself knows them."""
        return kind_of(self.kind).options(
            **{name: getattr(self.options, name) for name in type(self.options).model_fields}
        )


def request_model(kind: MaintenanceKind) -> type[JobIn]:
    """The body of a request for a job of this kind: its fields are those of the kind's options."""
    named = "".join(word.title() for word in kind.name.split("-"))
    types = get_type_hints(kind.options)
    chosen: dict[str, Any] = {field.name: (types[field.name], _default(field)) for field in fields(kind.options)}
    words = "This kind has no options." if kind.options is JobOptions else kind.options.__doc__
    options = create_model(f"{named}OptionsIn", __base__=In, __doc__=words, **chosen)
    told: dict[str, Any] = {"kind": (Literal[kind.name], ...), "options": (options, options())}
    return create_model(f"{named}JobIn", __base__=JobIn, __doc__=f"A job of the kind `{kind.name}`.", **told)


def _default(field: Field[Any]) -> Any:
    """Every option can be left out: a field without a default is a mistake in the kind's module."""
    if field.default is MISSING:
        raise TypeError(f"the option {field.name} has no default")
    return field.default


def any_request(kinds: Iterable[MaintenanceKind]) -> Any:
    """The union of the bodies of these kinds, told apart by `kind`."""
    models: list[Any] = [request_model(kind) for kind in kinds if kind.can_request]
    return Annotated[reduce(or_, models), Described(discriminator="kind")]


if TYPE_CHECKING:
    AnyJobIn = JobIn
else:
    AnyJobIn = any_request(KINDS)


class StartJobIn(RootModel[AnyJobIn]):
    """The kind of the job, and the options that this kind has."""


@router.post(
    "/{table}/jobs", status_code=202, summary="Start a job", responses=refusals(400, 404, 409), name="start_job"
)
def start_job(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    body: StartJobIn,
    *,
    dry_run: Annotated[bool, Query(description="say what the job would do, and start none")] = False,
) -> JobOut | DryRunOut:
    """Start a maintenance job now; Conflict while another job is active on the table.

    A dry run answers what the job would do. To find orphans, every file has to be listed: that dry run is a job too.
    """
    kind, params = kind_of(body.root.kind), body.root.job_options.as_params()
    if dry_run and kind.dry_run_params is None:
        return DryRunOut.of(kind.name, services.dry_runs.of(catalog, table, kind.name, params))
    if dry_run:
        params |= kind.dry_run_params or {}
    services.dry_runs.check(catalog, table, kind.name, params)
    nothing = services.dry_runs.finds_nothing(catalog, table, kind.name, params)
    return JobOut.of(services.planner.run_now(catalog, table, kind.name, params, nothing_to_do=nothing))
