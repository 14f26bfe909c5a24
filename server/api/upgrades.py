"""Upgrades of many Hive tables at once."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from fastapi import APIRouter
from pydantic import Field

from catalog.jobs.operation import BatchId, OperationKind, Tally
from catalog.keyed.spec import KeyScope, KeySpec
from firn.protocol.base import Request as In
from server.api.deps import CatalogDep, Out, ServicesDep
from server.api.errors import refusals
from server.service.hive.operations import Wanted

router = APIRouter(prefix="/catalogs/{catalog}/hive", tags=["hive"])


class KeyIn(In):
    """The key of one table among many."""

    primary_key: list[str]
    sequence_field: str | None = None
    key_scope: KeyScope = KeyScope.GLOBAL

    def spec(self) -> KeySpec | None:
        """None without columns: a plain table."""
        if not self.primary_key:
            return None
        return KeySpec(primary_key=tuple(self.primary_key), sequence_field=self.sequence_field, scope=self.key_scope)


class UpgradeManyIn(In):
    """Which tables are to be upgraded, by names and patterns such as `sales.*`, and how.

    `key` is for all of them, `keys` for those that are named there. With `dry_run` they are only checked.
    """

    tables: list[str] = Field(min_length=1)
    key: KeyIn | None = None
    keys: dict[str, KeyIn] = {}
    properties: dict[str, str] = {}
    dry_run: bool = False


class BatchOut(Out):
    """What one request has started: how many operations of it stand where, and what may be done to all of them."""

    id: UUID
    kind: OperationKind
    tables: int
    unfinished: int
    outcomes: dict[str, int]
    created_at: datetime
    allowed_actions: list[str]

    @classmethod
    def of(cls, batch: UUID, tally: Tally) -> BatchOut:
        """A batch as it is shown."""
        tables = sum(tally.outcomes.values())
        unfinished = sum(tally.outcomes.get(one, 0) for one in ("waiting", "running", "paused"))
        return cls(
            id=batch,
            kind=tally.kind,
            tables=tables,
            unfinished=unfinished,
            outcomes=dict(tally.outcomes),
            created_at=tally.created_at,
            allowed_actions=tally.allowed_actions,
        )


class StartedOut(Out):
    """A batch that was started, None where nothing was to be done; and tables that need nothing, with the reason."""

    batch: BatchOut | None
    skipped: dict[str, str]


@router.post("/upgrade", status_code=202, summary="Upgrade or check many tables", responses=refusals(400, 404, 503))
def upgrade_many(services: ServicesDep, catalog: CatalogDep, body: UpgradeManyIn) -> StartedOut:
    """Start one operation for each matching table; nothing is looked at before this answers."""
    keys = {name: one.spec() for name, one in body.keys.items()}
    wanted = Wanted(
        tables=body.tables,
        key=None if body.key is None else body.key.spec(),
        keys=keys,
        properties=body.properties,
        dry_run=body.dry_run,
    )
    started = services.hive.operations.start_many(catalog, wanted)
    services.hive.poke()
    tally = services.hive.operations.tally(catalog, started.batch) if started.count else None
    batch = None if tally is None else BatchOut.of(started.batch, tally)
    return StartedOut(batch=batch, skipped=dict(started.skipped))


@router.get("/upgrades/{batch}", summary="Show how far a batch is", responses=refusals(404))
def show_batch(services: ServicesDep, catalog: CatalogDep, batch: UUID) -> BatchOut:
    """In numbers; its operations are listed by `GET /operations?batch=`."""
    return BatchOut.of(batch, services.hive.operations.tally(catalog, BatchId(batch)))


@router.post("/upgrades/{batch}/pause", summary="Pause a batch", responses=refusals(404))
def pause_batch(services: ServicesDep, catalog: CatalogDep, batch: UUID) -> BatchOut:
    """Everything of it that has not ended."""
    return BatchOut.of(batch, services.hive.operations.pause_all(catalog, BatchId(batch)))


@router.post("/upgrades/{batch}/resume", summary="Resume a batch", responses=refusals(404))
def resume_batch(services: ServicesDep, catalog: CatalogDep, batch: UUID) -> BatchOut:
    """Everything of it that is paused."""
    tally = services.hive.operations.resume_all(catalog, BatchId(batch))
    services.hive.poke()
    return BatchOut.of(batch, tally)


@router.post("/upgrades/{batch}/cancel", summary="Cancel a batch", responses=refusals(404))
def cancel_batch(services: ServicesDep, catalog: CatalogDep, batch: UUID) -> BatchOut:
    """Everything of it that has not ended; tables that are upgraded already stay so."""
    tally = services.hive.operations.cancel_all(catalog, BatchId(batch))
    services.hive.poke()
    return BatchOut.of(batch, tally)
