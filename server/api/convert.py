"""Making a table of a Hive table's rows, by a rewrite."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from catalog.errors import Invalid
from catalog.keyed.spec import KeySpec
from catalog.names import TableName
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, Out, ServicesDep
from server.api.errors import refusals
from server.api.hive import CheckOut, FullName
from server.api.jobs import JobOut

router = APIRouter()


class ConvertIn(In):
    """Under which name, `namespace.table`; without one it is named like Hive's.

    With a primary key it becomes a keyed table, which is filled only if every key occurs once; with `unique` false
    whatever its keys are, as an upgrade does it.
    """

    name: str | None = None
    primary_key: list[str] = []
    sequence_field: str | None = None
    unique: bool = True


class ConversionOut(Out):
    """What a rewrite would read, and the table that it would fill."""

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
def look(
    services: ServicesDep,
    catalog: CatalogDep,
    full_name: FullName,
    name: Annotated[str | None, Query(description="As the conversion would be given it.")] = None,
    primary_key: Annotated[list[str], Query(description="Columns of the key; without any it is a plain table.")] = [],  # noqa: B006 -- FastAPI's own way
    sequence_field: Annotated[str | None, Query(description="As the conversion would be given it.")] = None,
) -> ConversionOut:
    """What would be read and written anew, and what stands in the way; nothing is changed."""
    found = services.hive.conversions.look(catalog, full_name, _parsed(name), _spec(primary_key, sequence_field))
    return ConversionOut(
        table=found.table.full_name,
        target=str(found.target),
        format=found.format,
        partitions=found.partitions,
        files=found.files,
        bytes=found.bytes,
        notes=list(found.notes),
        checks=[CheckOut.model_validate(check) for check in found.checks],
        convertible=not found.checks,
    )


@router.post(
    "/catalogs/{catalog}/hive/{full_name}/convert",
    status_code=202,
    tags=["hive"],
    summary="Convert a table by a rewrite",
    responses=refusals(400, 404, 409, 503),
)
def convert(services: ServicesDep, catalog: CatalogDep, full_name: FullName, body: ConvertIn | None = None) -> JobOut:
    """Add a table, empty, and the job that fills it with the Hive table's rows; that one is not followed afterwards."""
    asked = body or ConvertIn()
    spec = _spec(asked.primary_key, asked.sequence_field)
    job = services.hive.conversions.start(catalog, full_name, _parsed(asked.name), spec, unique=asked.unique)
    return JobOut.of(job)


def _spec(primary_key: list[str], sequence_field: str | None) -> KeySpec | None:
    if not primary_key:
        if sequence_field is not None:
            raise Invalid("a sequence field orders the rows of a key: name the primary key too")
        return None
    return KeySpec(primary_key=tuple(primary_key), sequence_field=sequence_field)


def _parsed(name: str | None) -> TableName | None:
    return None if name is None else TableName.parse(name)
