"""Checkpoints of pipelines, and the states of inputs that they pin, in the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import and_, delete, exists, or_, select, update
from sqlalchemy.orm import aliased

from catalog.jobs.job import JobId
from catalog.names import RelationId
from catalog.pipelines.pipeline import CheckpointId, PipelineTableId, StoredCheckpoint, StoredPin
from firn.protocol.backfills import BackfillStatus
from firn.protocol.pipeline_pins import InputPin
from server.store.pipeline_rows import PipelineBackfillRow, PipelineCheckpointRow, PipelinePinRow
from server.store.session import ReadSession
from server.store.stream_rows import WriterRow

_IS_POSITION = exists().where(
    WriterRow.relation_id == PipelineCheckpointRow.store_id,
    WriterRow.name == PipelineCheckpointRow.writer,
    WriterRow.position == PipelineCheckpointRow.id,
)
_LATER = aliased(PipelineCheckpointRow)
_HAS_LATER = exists().where(
    _LATER.table_id == PipelineCheckpointRow.table_id, _LATER.number > PipelineCheckpointRow.number
)
_IS_REPLAYED = exists().where(
    PipelineBackfillRow.since == PipelineCheckpointRow.id,
    PipelineBackfillRow.status.in_([status.value for status in BackfillStatus if status.is_open]),
)


@dataclass(frozen=True)
class SqlCheckpoints:
    """See catalog.ports.pipelines.Checkpoints."""

    session: ReadSession

    def add(self, checkpoint: StoredCheckpoint) -> None:
        """Store the pins of a run."""
        pins = [
            {"relation_id": str(pin.relation_id), "schema_id": pin.schema_id, "pin": pin.pin.model_dump(mode="json")}
            for pin in checkpoint.pins
        ]
        same = ("id", "table_id", "job_id", "store_id", "writer", "fingerprint", "pinned_at", "kept_until")
        self.session.add(PipelineCheckpointRow(**{name: getattr(checkpoint, name) for name in same}, pins=pins))
        for pin in checkpoint.pins:
            if pin.pin.version is not None:
                self.session.add(
                    PipelinePinRow(
                        checkpoint_id=checkpoint.id,
                        relation_id=pin.relation_id,
                        table_id=checkpoint.table_id,
                        version=pin.pin.version,
                    )
                )
        self.session.flush()

    def note_exact(self, table_id: PipelineTableId, checkpoint_id: str, exact_at: str | None) -> None:
        """Keep the state of the table at which its rows are exact, with the checkpoint that a step reaches."""
        of = (PipelineCheckpointRow.table_id == table_id, PipelineCheckpointRow.id == checkpoint_id)
        self.session.execute(update(PipelineCheckpointRow).where(*of).values(exact_at=exact_at))

    def find(self, table_id: PipelineTableId, checkpoint_id: str) -> StoredCheckpoint | None:
        """Find the pins of a table by their id."""
        of = (PipelineCheckpointRow.table_id == table_id, PipelineCheckpointRow.id == checkpoint_id)
        row = self.session.scalar(select(PipelineCheckpointRow).where(*of))
        return None if row is None else to_checkpoint(row)

    def number_of(self, table_id: PipelineTableId, checkpoint_id: str) -> int:
        """Find the number of a checkpoint; 0 if it is unknown."""
        of = (PipelineCheckpointRow.table_id == table_id, PipelineCheckpointRow.id == checkpoint_id)
        return self.session.scalar(select(PipelineCheckpointRow.number).where(*of)) or 0

    def list(self, table_id: PipelineTableId, *, limit: int, oldest_first: bool = False) -> Sequence[StoredCheckpoint]:
        """List the pins of a table's runs, newest first."""
        number = PipelineCheckpointRow.number
        query = select(PipelineCheckpointRow).where(PipelineCheckpointRow.table_id == table_id)
        rows = self.session.scalars(query.order_by(number if oldest_first else number.desc()).limit(limit))
        return [to_checkpoint(row) for row in rows]

    def forget(self, table_id: PipelineTableId, *, keep: int, current: str) -> None:
        """Remove the oldest pins of a table."""
        of_table = PipelineCheckpointRow.table_id == table_id
        newest = select(PipelineCheckpointRow.id).where(of_table)
        newest = newest.order_by(PipelineCheckpointRow.number.desc()).limit(keep)
        old = select(PipelineCheckpointRow.id).where(
            of_table,
            PipelineCheckpointRow.id != current,
            PipelineCheckpointRow.id.not_in(newest),
            ~_IS_REPLAYED,
        )
        ids = self.session.scalars(old).all()
        self.session.execute(delete(PipelinePinRow).where(PipelinePinRow.checkpoint_id.in_(ids)))
        self.session.execute(delete(PipelineCheckpointRow).where(of_table, PipelineCheckpointRow.id.in_(ids)))

    def list_pinned(self, relation_id: RelationId, now: datetime) -> Sequence[str]:
        """List the versions that checkpoints, newest runs and open replays pin, by the index of an input's pins."""
        joined = and_(
            PipelineCheckpointRow.id == PipelinePinRow.checkpoint_id,
            PipelineCheckpointRow.table_id == PipelinePinRow.table_id,
        )
        query = select(PipelinePinRow.version).join(PipelineCheckpointRow, joined)
        query = query.where(PipelinePinRow.relation_id == relation_id, PipelineCheckpointRow.kept_until > now)
        return self.session.scalars(query.where(or_(_IS_POSITION, ~_HAS_LATER, _IS_REPLAYED)).distinct()).all()


def to_checkpoint(row: PipelineCheckpointRow) -> StoredCheckpoint:
    """Convert a row to a checkpoint."""
    return StoredCheckpoint(
        id=CheckpointId(row.id),
        table_id=PipelineTableId(row.table_id),
        job_id=JobId(row.job_id),
        store_id=RelationId(row.store_id),
        writer=row.writer,
        fingerprint=row.fingerprint,
        pinned_at=row.pinned_at,
        kept_until=row.kept_until,
        number=row.number,
        exact_at=row.exact_at,
        pins=[
            StoredPin(
                relation_id=RelationId(UUID(pin["relation_id"])),
                schema_id=pin["schema_id"],
                pin=InputPin.model_validate(pin["pin"]),
            )
            for pin in row.pins
        ],
    )
