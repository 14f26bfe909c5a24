"""The database's commit events and metrics reports; errors as in catalog.ports.store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from catalog.history.commit import CommitEvent
from catalog.history.metrics import MetricsReport, ReportKind
from catalog.names import CatalogName, RelationId
from catalog.ports.page import Page
from firn.protocol.history import Topic


class Events(Protocol):
    """The history of commits."""

    def add(self, event: CommitEvent) -> None:
        """DuplicateBatch if the relation has this writer's batch already."""

    def find_batch(self, relation_id: RelationId, writer_id: str, batch_id: str) -> CommitEvent | None: ...

    def pending(self, change_id: RelationId, *, above: int) -> tuple[int, int, int, datetime | None]:
        """Rows, bytes, commits and the oldest time of appends to a change store above a sequence number."""

    def pending_of_writers(self, change_id: RelationId, *, above: int) -> tuple[int, int, int, datetime | None]:
        """The same counts without the appends of sync jobs, because Hive has these rows."""

    def newest_before(self, relation_id: RelationId, moment: datetime) -> int:
        """The highest sequence number of the commits before that moment; 0 for none."""

    def first_after(self, relation_id: RelationId, snapshot_id: int | None) -> datetime | None:
        """The time of the first commit of a snapshot after this one; None if the events do not tell it."""

    def of_snapshots(self, relation_id: RelationId, snapshot_ids: Collection[int]) -> Mapping[int, CommitEvent]: ...

    def of_catalog(self, catalog: CatalogName, snapshot_id: int) -> Sequence[CommitEvent]:
        """The events of this snapshot in all tables, also in tables that are gone, newest first."""

    def list(
        self,
        catalog: CatalogName | None,
        relation_ids: Collection[RelationId] | None,
        *,
        limit: int,
        cursor: str | None = None,
        topics: Collection[Topic] = (),
    ) -> Page[CommitEvent]:
        """Newest first. None means all catalogs or relations; no topics mean all."""

    def find(self, event_id: int) -> CommitEvent | None: ...

    def between(
        self, relation_id: RelationId, after: int, until: int, topics: Collection[Topic], *, limit: int
    ) -> Sequence[CommitEvent]:
        """Commits on one of these topics, numbered above `after` and up to `until`, oldest first."""

    def forget_batches(self, relation_id: RelationId, snapshot_ids: Collection[int]) -> None:
        """Allow the batches of these snapshots again, because the table's history no longer has the snapshots."""

    def recall_batches(self, relation_id: RelationId, snapshot_ids: Collection[int]) -> None:
        """Refuse the batches of these snapshots again, because the history has them again. Batches that another commit
        has brought since stay with that commit.
        """

    def last_id(self) -> int: ...


class Metrics(Protocol):
    """Metrics reports of engines on scans and commits."""

    def add(self, reports: Sequence[MetricsReport]) -> None: ...

    def list(
        self, relation_ids: Collection[RelationId], kind: ReportKind | None, *, limit: int, cursor: str | None = None
    ) -> Page[MetricsReport]:
        """Newest first; None means both kinds."""

    def remove_before(self, moment: datetime) -> int: ...
