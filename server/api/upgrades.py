"""Batches: upgrades or checks of many Hive tables with one request."""

from __future__ import annotations

from typing import Self
from uuid import UUID

from fastapi import APIRouter
from pydantic import Field, model_validator

from catalog.jobs.operation import BatchId, Tally
from catalog.keyed.spec import KeyScope, KeySpec
from firn.protocol.answers.operations import BatchOut, StartedOut
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, ServicesDep
from server.api.errors import refusals
from server.api.hive_filter import HiveFilterIn, build_filter
from server.service.hive.operations import Wanted

router = APIRouter(prefix="/catalogs/{catalog}/hive", tags=["hive"])


class KeyIn(In):
    """The key of one table of the batch."""

    primary_key: list[str]
    sequence_field: str | None = None
    key_scope: KeyScope = KeyScope.GLOBAL

    def spec(self) -> KeySpec | None:
        """Build the key; None without columns, for a plain table."""
        if not self.primary_key:
            return None
        return KeySpec(primary_key=tuple(self.primary_key), sequence_field=self.sequence_field, scope=self.key_scope)


class UpgradeManyIn(In):
    """The tables to upgrade, as names and patterns such as `sales.*`, and their keys and properties.

    `filter` selects all tables of the index that match when the request comes. `keys` has the keys of single tables,
    `key_file` further ones as CSV, and `key` is that of all others. With `dry_run` the server only checks the tables,
    and with `unique` it reads their rows to count duplicate keys.
    The wave of this `name` stops when `stop_after` of its tables have failed.
    """

    tables: list[str] = []
    filter: HiveFilterIn | None = None
    key: KeyIn | None = None
    keys: dict[str, KeyIn] = {}
    key_file: str = ""
    properties: dict[str, str] = {}
    dry_run: bool = False
    unique: bool = False
    name: str = Field("", max_length=255)
    stop_after: int | None = Field(None, ge=1, le=1_000_000)

    @model_validator(mode="after")
    def check_selection(self) -> Self:
        """Refuse a request that selects nothing."""
        if not self.tables and self.filter is None:
            raise ValueError("name tables, or give a filter; an empty filter selects all tables")
        return self


@router.post("/upgrade", status_code=202, summary="Upgrade or check many tables", responses=refusals(400, 404, 503))
def upgrade_many(services: ServicesDep, catalog: CatalogDep, body: UpgradeManyIn) -> StartedOut:
    """Start one operation for each matching table. The server answers before it reads any table."""
    keys = {name: key.spec() for name, key in body.keys.items()}
    selection = Wanted(
        tables=body.tables,
        key=None if body.key is None else body.key.spec(),
        keys=keys,
        properties=body.properties,
        dry_run=body.dry_run,
        unique=body.unique,
        only=None if body.filter is None else build_filter(body.filter),
        key_file=body.key_file,
        name=body.name.replace("\0", ""),
        stop_after=body.stop_after,
    )
    started = services.hive.operations.start_many(catalog, selection)
    services.hive.poke()
    tally = services.hive.operations.tally(catalog, started.batch) if started.count else None
    batch = None if tally is None else build_batch_out(started.batch, tally)
    return StartedOut(batch=batch, skipped=dict(started.skipped), unused_keys=started.unused_keys)


@router.get("/upgrades/{batch}", summary="Show how far a batch is", responses=refusals(404))
def show_batch(services: ServicesDep, catalog: CatalogDep, batch: UUID) -> BatchOut:
    """Show the progress of a batch in numbers; `GET /operations?batch=` lists its operations."""
    return build_batch_out(batch, services.hive.operations.tally(catalog, BatchId(batch)))


@router.post("/upgrades/{batch}/pause", summary="Pause a batch", responses=refusals(404))
def pause_batch(services: ServicesDep, catalog: CatalogDep, batch: UUID) -> BatchOut:
    """Pause all unfinished operations of a batch."""
    return build_batch_out(batch, services.hive.operations.pause_all(catalog, BatchId(batch)))


@router.post("/upgrades/{batch}/resume", summary="Resume a batch", responses=refusals(404))
def resume_batch(services: ServicesDep, catalog: CatalogDep, batch: UUID) -> BatchOut:
    """Resume all paused operations of a batch."""
    tally = services.hive.operations.resume_all(catalog, BatchId(batch))
    services.hive.poke()
    return build_batch_out(batch, tally)


@router.post("/upgrades/{batch}/cancel", summary="Cancel a batch", responses=refusals(404))
def cancel_batch(services: ServicesDep, catalog: CatalogDep, batch: UUID) -> BatchOut:
    """Cancel all unfinished operations of a batch. Tables that are upgraded already stay upgraded."""
    tally = services.hive.operations.cancel_all(catalog, BatchId(batch))
    services.hive.poke()
    return build_batch_out(batch, tally)


def build_batch_out(batch: UUID, tally: Tally) -> BatchOut:
    """Build the answer from the counts of a batch."""
    tables = sum(tally.outcomes.values())
    unfinished = sum(tally.outcomes.get(outcome, 0) for outcome in ("waiting", "running", "paused"))
    return BatchOut(
        id=batch,
        kind=tally.kind,
        tables=tables,
        unfinished=unfinished,
        outcomes=dict(tally.outcomes),
        created_at=tally.created_at,
        allowed_actions=tally.allowed_actions,
    )
