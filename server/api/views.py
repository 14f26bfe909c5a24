"""Stored views: their versions and the rollback to one. These routes do not serve keyed tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query

from catalog.history.schema_text import format_iceberg_type
from catalog.history.table_stats import read_engine
from catalog.history.views import read_sql_by_dialect, read_version_schema
from catalog.iceberg.json import Json
from catalog.names import CatalogName, TableName
from firn.protocol.base import Out
from firn.protocol.base import Request as In
from firn.protocol.descriptions import DescriptionOut
from firn.protocol.names import join_name
from server.api.deps import CatalogDep, ServicesDep
from server.api.description_views import build_description_out
from server.api.errors import refusals
from server.api.history_views import ChangeOut
from server.service.services import Services
from server.service.tables.view_versions import SeenView

router = APIRouter(prefix="/catalogs/{catalog}/views/{view}", tags=["views"])


async def _parse_view_name(view: Annotated[str, Path(description="NAMESPACE.VIEW")]) -> TableName:
    return TableName.parse(view)


ViewDep = Annotated[TableName, Depends(_parse_view_name)]


class ViewColumnOut(Out):
    """A column of a view."""

    name: str
    type: str
    comment: str | None


class ViewVersionOut(Out):
    """One version that the view keeps."""

    version_id: int
    committed_at: datetime
    engine: str | None
    is_current: bool
    sql: dict[str, str]
    default_namespace: str
    columns: list[ViewColumnOut]


class ViewOut(Out):
    """A stored view."""

    id: UUID
    catalog: str
    name: str
    namespace: str
    location: str
    metadata_location: str | None
    created_at: datetime
    updated_at: datetime
    current_version: int
    versions: list[ViewVersionOut]
    description: DescriptionOut
    properties: dict[str, str]


class ViewRollbackIn(In):
    """The target version; `expected_version` is the current version that a dry run showed."""

    version_id: int
    expected_version: int | None = None


class ViewRollbackOut(Out):
    """The changes that the rollback makes to the view."""

    done: bool
    version: int
    target: int
    changes: list[ChangeOut]


@router.get("", summary="Show a view", responses=refusals(404, 409))
def show_view(services: ServicesDep, catalog: CatalogDep, view: ViewDep) -> ViewOut:
    """Show the SQL and columns of each version, newest first."""
    return load_view_out(services, catalog, view)


@router.delete("", status_code=204, summary="Drop a view", responses=refusals(404, 409))
def drop_view(services: ServicesDep, catalog: CatalogDep, view: ViewDep) -> None:
    """Drop a view. The tables that it reads stay."""
    services.views.drop(catalog, view)


@router.post("/rollback", summary="Roll a view back", responses=refusals(400, 404, 409))
def roll_back_view(
    services: ServicesDep,
    catalog: CatalogDep,
    view: ViewDep,
    body: ViewRollbackIn,
    *,
    dry_run: Annotated[bool, Query()] = False,
) -> ViewRollbackOut:
    """Make a kept version current. All versions stay."""
    if dry_run:
        rollback = services.view_versions.plan(catalog, view, body.version_id)
    else:
        rollback = services.view_versions.rollback(
            catalog, view, body.version_id, expected_version=body.expected_version
        )
    changes = [ChangeOut.of(change) for change in rollback.changes]
    return ViewRollbackOut(done=not dry_run, version=rollback.now, target=rollback.then, changes=changes)


def load_view_out(services: Services, catalog: CatalogName, view: TableName) -> ViewOut:
    """Load a view with its versions; raises NoSuchView."""
    return _describe_view(services.view_versions.load(catalog, view))


def _describe_view(state: SeenView) -> ViewOut:
    relation, metadata = state.relation, state.metadata
    versions = sorted(metadata["versions"], key=lambda version: int(version["version-id"]), reverse=True)
    return ViewOut(
        id=relation.id,
        catalog=relation.catalog,
        name=relation.name.name,
        namespace=join_name(relation.name.namespace),
        location=relation.location,
        metadata_location=relation.metadata_location,
        created_at=relation.created_at,
        updated_at=relation.updated_at,
        current_version=metadata["current-version-id"],
        versions=[_describe_version(metadata, version) for version in versions],
        description=build_description_out(metadata.get("properties") or {}),
        properties=metadata.get("properties") or {},
    )


def _describe_version(metadata: Json, version: Json) -> ViewVersionOut:
    fields = read_version_schema(metadata, version)["fields"]
    return ViewVersionOut(
        version_id=version["version-id"],
        committed_at=datetime.fromtimestamp(version.get("timestamp-ms", 0) / 1000, UTC),
        engine=read_engine(version.get("summary") or {}),
        is_current=version["version-id"] == metadata["current-version-id"],
        sql=read_sql_by_dialect(version),
        default_namespace=join_name(version.get("default-namespace") or ()),
        columns=[
            ViewColumnOut(name=field["name"], type=format_iceberg_type(field["type"]), comment=field.get("doc"))
            for field in fields
        ],
    )
