"""Conversion: a rewrite that fills a new table with the rows of a Hive table."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from catalog.errors import Invalid
from catalog.keyed.spec import KeySpec
from catalog.names import TableName
from firn.protocol.answers.jobs import JobOut
from firn.protocol.base import Out
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, ServicesDep
from server.api.errors import refusals
from server.api.hive import CheckOut, FullName
from server.api.jobs import build_job_out

router = APIRouter()


class ConvertIn(In):
    """The new table: its name as `namespace.table`, by default the Hive table's, and its primary key if it has one.

    A primary key makes it a keyed table, and the job then fails on duplicate keys.  With `unique` false the job does
    not check keys, like an upgrade.
    """

    name: str | None = None
    primary_key: list[str] = []
    sequence_field: str | None = None
    unique: bool = True


class ConversionOut(Out):
    """The rows that a conversion would read, and the table that it would fill."""

    table: str
    target: str
    format: str
    partitions: int
    files: int
    bytes: int
    notes: list[str]
    checks: list[CheckOut]
    convertible: bool


@router.get(
    "/catalogs/{catalog}/hive/{full_name}/convert",
    tags=["hive"],
    summary="Show what a conversion would do",
    responses=refusals(400, 404, 503),
)
def preview_conversion(
    services: ServicesDep,
    catalog: CatalogDep,
    full_name: FullName,
    name: Annotated[str | None, Query(description="As in the request for the conversion.")] = None,
    primary_key: Annotated[list[str], Query(description="Columns of the key; none make a plain table.")] = [],  # noqa: B006 -- FastAPI's own way
    sequence_field: Annotated[str | None, Query(description="As in the request for the conversion.")] = None,
) -> ConversionOut:
    """Show what the conversion would read and write, and what prevents it. Changes nothing."""
    preview = services.hive.conversions.preview(
        catalog, full_name, _parse_name(name), _build_spec(primary_key, sequence_field)
    )
    return ConversionOut(
        table=preview.table.full_name,
        target=str(preview.target),
        format=preview.format,
        partitions=preview.partitions,
        files=preview.files,
        bytes=preview.bytes,
        notes=list(preview.notes),
        checks=[CheckOut.model_validate(check) for check in preview.checks],
        convertible=not preview.checks,
    )


@router.post(
    "/catalogs/{catalog}/hive/{full_name}/convert",
    status_code=202,
    tags=["hive"],
    summary="Convert a table by a rewrite",
    responses=refusals(400, 404, 409, 503),
)
def convert(services: ServicesDep, catalog: CatalogDep, full_name: FullName, body: ConvertIn | None = None) -> JobOut:
    """Create an empty table, and the job that fills it with the Hive table's rows. No sync follows."""
    request = body or ConvertIn()
    spec = _build_spec(request.primary_key, request.sequence_field)
    job = services.hive.conversions.start(catalog, full_name, _parse_name(request.name), spec, unique=request.unique)
    return build_job_out(job)


def _build_spec(primary_key: list[str], sequence_field: str | None) -> KeySpec | None:
    if not primary_key:
        if sequence_field is not None:
            raise Invalid("a sequence field orders the rows of a key: name the primary key too")
        return None
    return KeySpec(primary_key=tuple(primary_key), sequence_field=sequence_field)


def _parse_name(name: str | None) -> TableName | None:
    return None if name is None else TableName.parse(name)
