"""Consumers of changes in the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from sqlalchemy import delete, select

from catalog.keyed.consumer import Consumer
from catalog.names import CatalogName, RelationId, TableName, decode_namespace
from catalog.ports.consumers import NamedConsumer
from server.store.consumer_rows import ConsumerRow
from server.store.rows import KeyedTableRow, RelationRow
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

    def list_behind(self, *, limit: int) -> Sequence[NamedConsumer]:
        """List the consumers of all tables that have versions to read, the most urgent first."""
        query = (
            select(ConsumerRow, RelationRow.catalog, RelationRow.namespace, RelationRow.name, KeyedTableRow.version)
            .join(KeyedTableRow, KeyedTableRow.relation_id == ConsumerRow.relation_id)
            .join(RelationRow, RelationRow.id == ConsumerRow.relation_id)
            .where(KeyedTableRow.version > ConsumerRow.version)
            .order_by(ConsumerRow.kept_until, ConsumerRow.relation_id, ConsumerRow.name)
        )
        return [
            NamedConsumer(
                consumer=_to_consumer(row),
                catalog=CatalogName(catalog),
                table=TableName(decode_namespace(namespace), name),
                lag_versions=newest - row.version,
            )
            for row, catalog, namespace, name, newest in self.session.execute(query.limit(limit))
        ]

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
