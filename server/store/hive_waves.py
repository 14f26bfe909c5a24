"""Waves of upgrades and checks in the database."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Select, delete, select, update

from catalog.hive.wave import Wave
from catalog.jobs.operation import BatchId
from catalog.names import CatalogName
from catalog.ports.page import Page
from firn.protocol.operations import OperationKind
from server.store import cursor as cursors
from server.store.hive_rows import HiveWaveRow
from server.store.session import ReadSession

_WAVE = tuple(field.name for field in fields(Wave))


@dataclass(frozen=True)
class SqlHiveWaves:
    """See catalog.ports.hive.HiveWaves."""

    session: ReadSession

    def add(self, wave: Wave) -> None:
        """Add a wave."""
        self.session.add(HiveWaveRow(**_values(wave)))
        self.session.flush()

    def find(self, batch: BatchId) -> Wave | None:
        """Find the wave of a batch."""
        return self._find(select(HiveWaveRow).where(HiveWaveRow.batch == batch))

    def lock(self, batch: BatchId) -> Wave | None:
        """Find the wave of a batch and lock it until the transaction ends."""
        return self._find(select(HiveWaveRow).where(HiveWaveRow.batch == batch).with_for_update())

    def _find(self, query: Select[HiveWaveRow]) -> Wave | None:
        row = self.session.scalar(query.execution_options(populate_existing=True))
        return None if row is None else _wave(row)

    def put(self, wave: Wave) -> None:
        """Replace a wave."""
        self.session.execute(update(HiveWaveRow).where(HiveWaveRow.batch == wave.batch).values(**_values(wave)))

    def list(self, catalog: CatalogName, *, limit: int, cursor: str | None = None) -> Page[Wave]:
        """List the waves of a catalog, newest first."""
        query = select(HiveWaveRow).where(HiveWaveRow.catalog == catalog)
        if cursor is not None:
            query = query.where(HiveWaveRow.number < cursors.decode_number(cursor))
        rows = self.session.scalars(query.order_by(HiveWaveRow.number.desc()).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].number) if len(rows) > limit else None
        return Page([_wave(row) for row in rows[:limit]], more)

    def forget_checks(self, before: datetime) -> int:
        """Remove old waves of checks; the index keeps what the checks found."""
        old = delete(HiveWaveRow).where(HiveWaveRow.kind == OperationKind.CHECK, HiveWaveRow.created_at < before)
        return len(self.session.execute(old.returning(HiveWaveRow.number)).all())


def _values(wave: Wave) -> dict[str, Any]:
    return {name: getattr(wave, name) for name in _WAVE} | {"selection": dict(wave.selection)}


def _wave(row: HiveWaveRow) -> Wave:
    return Wave(**{name: getattr(row, name) for name in _WAVE} | {"kind": OperationKind(row.kind)})
