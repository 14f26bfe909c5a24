"""Consumers of changes in the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from sqlalchemy import delete, select

from catalog.keyed.consumer import Consumer
from catalog.names import RelationId
from server.store.consumer_rows import ConsumerRow
from server.store.session import ReadSession
from server.store.upsert import upsert

_FIELDS = tuple(field.name for field in fields(Consumer))


@dataclass(frozen=True)
class SqlConsumers:
    """See catalog.ports.consumers.Consumers."""

    session: ReadSession

    def find(self, relation_id: RelationId, name: str) -> Consumer | None:
        """Find a consumer by its name."""
        query = select(ConsumerRow).where(ConsumerRow.relation_id == relation_id, ConsumerRow.name == name)
        row = self.session.scalar(query)
        return None if row is None else _to_consumer(row)

    def list(self, relation_id: RelationId) -> Sequence[Consumer]:
        """List the consumers of a table by name."""
        query = select(ConsumerRow).where(ConsumerRow.relation_id == relation_id).order_by(ConsumerRow.name)
        return [_to_consumer(row) for row in self.session.scalars(query)]

    def put(self, consumer: Consumer) -> None:
        """Add or replace a consumer."""
        upsert(self.session, ConsumerRow, {name: getattr(consumer, name) for name in _FIELDS})

    def remove(self, relation_id: RelationId, name: str) -> bool:
        """Remove a consumer; False if there is none."""
        gone = delete(ConsumerRow).where(ConsumerRow.relation_id == relation_id, ConsumerRow.name == name)
        return self.session.execute(gone.returning(ConsumerRow.name)).scalar_one_or_none() is not None

    def delete(self, relation_id: RelationId) -> None:
        """Remove the consumers of a table that is gone."""
        self.session.execute(delete(ConsumerRow).where(ConsumerRow.relation_id == relation_id))


def _to_consumer(row: ConsumerRow) -> Consumer:
    return Consumer(**{name: getattr(row, name) for name in _FIELDS})
