"""Blockers in the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, select

from catalog.jobs.blocker import Blocker, BlockerId
from catalog.jobs.job import JobKind
from catalog.names import RelationId
from server.store.job_rows import BlockerRow
from server.store.session import ReadSession


@dataclass(frozen=True)
class SqlBlockers:
    """See catalog.ports.optimizers.Blockers."""

    session: ReadSession

    def add(self, blocker: Blocker) -> None:
        """Add a blocker."""
        values = {name: getattr(blocker, name) for name in Blocker.__slots__}
        self.session.add(BlockerRow(**values | {"kinds": sorted(blocker.kinds)}))

    def of(self, relation_ids: Collection[RelationId], now: datetime) -> Mapping[RelationId, Sequence[Blocker]]:
        """Get the current blockers by table, in the order of their creation."""
        query = select(BlockerRow).where(BlockerRow.relation_id.in_(relation_ids), BlockerRow.until > now)
        blockers: dict[RelationId, list[Blocker]] = defaultdict(list)
        for row in self.session.scalars(query.order_by(BlockerRow.created_at, BlockerRow.id)):
            blockers[RelationId(row.relation_id)].append(_blocker(row))
        return blockers

    def remove(self, relation_id: RelationId, blocker_id: BlockerId | None = None) -> int:
        """Remove one blocker of a table, or all of them; returns their number."""
        statement = delete(BlockerRow).where(BlockerRow.relation_id == relation_id)
        if blocker_id is not None:
            statement = statement.where(BlockerRow.id == blocker_id)
        return len(self.session.execute(statement.returning(BlockerRow.id)).all())

    def remove_before(self, moment: datetime) -> int:
        """Remove blockers that ended before a time; returns their number."""
        ended = delete(BlockerRow).where(BlockerRow.until < moment).returning(BlockerRow.id)
        return len(self.session.execute(ended).all())


def _blocker(row: BlockerRow) -> Blocker:
    return Blocker(
        id=BlockerId(row.id),
        relation_id=RelationId(row.relation_id),
        reason=row.reason,
        created_at=row.created_at,
        until=row.until,
        kinds=frozenset(JobKind(kind) for kind in row.kinds),
        set_by=row.set_by,
    )
