"""Builds of images in the database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, and_, delete, or_, select, update

from catalog.keyed.image_build import BuildState, ImageBuild
from catalog.names import RelationId
from server.store.rows import ImageBuildRow
from server.store.session import ReadSession

_FIELDS = tuple(field.name for field in fields(ImageBuild))


@dataclass(frozen=True)
class SqlImageBuilds:
    """See catalog.ports.images.ImageBuilds."""

    session: ReadSession

    def add(self, build: ImageBuild) -> None:
        """Store a new build."""
        values = {name: getattr(build, name) for name in _FIELDS}
        self.session.add(ImageBuildRow(**{**values, "layers": list(build.layers)}))
        self.session.flush()

    def find(self, relation_id: RelationId, digest: str) -> ImageBuild | None:
        """Find the complete build of an image."""
        return self._find_complete(relation_id, ImageBuildRow.digest == digest)

    def find_snapshot(self, relation_id: RelationId, snapshot_id: int, now: datetime) -> ImageBuild | None:
        """Find the complete build of the image with this snapshot, if it is still kept."""
        is_kept = and_(ImageBuildRow.snapshot_id == snapshot_id, ImageBuildRow.keep_until > now)
        return self._find_complete(relation_id, is_kept)

    def _find_complete(self, relation_id: RelationId, condition: ColumnElement[bool]) -> ImageBuild | None:
        query = select(ImageBuildRow).where(
            ImageBuildRow.relation_id == relation_id, condition, ImageBuildRow.state == BuildState.COMPLETE
        )
        row = self.session.scalars(query.limit(1)).first()
        return None if row is None else _build(row)

    def of_table(self, relation_id: RelationId, *, limit: int | None = None) -> Sequence[ImageBuild]:
        """List the builds of a table, the newest first; all, or this many."""
        query = select(ImageBuildRow).where(ImageBuildRow.relation_id == relation_id)
        newest_first = query.order_by(ImageBuildRow.started_at.desc()).limit(limit)
        return [_build(row) for row in self.session.scalars(newest_first)]

    def kept(self, relation_id: RelationId, snapshot_ids: Collection[int], now: datetime) -> Collection[int]:
        """Select the snapshots whose image is complete and still kept."""
        query = select(ImageBuildRow.snapshot_id).where(
            ImageBuildRow.relation_id == relation_id,
            ImageBuildRow.snapshot_id.in_(snapshot_ids),
            ImageBuildRow.keep_until > now,
            ImageBuildRow.state == BuildState.COMPLETE,
        )
        return set(self.session.scalars(query))

    def complete(self, build_id: UUID, keep_until: datetime) -> bool:
        """Mark a build as complete, unless it is being removed."""
        return self._change(
            build_id, ImageBuildRow.state != BuildState.REMOVING, state=BuildState.COMPLETE, keep_until=keep_until
        )

    def keep(self, build_id: UUID, until: datetime) -> bool:
        """Keep a complete build longer, unless it is being removed."""
        return self._change(build_id, ImageBuildRow.state == BuildState.COMPLETE, keep_until=until)

    def expired(self, now: datetime, *, limit: int) -> Sequence[ImageBuild]:
        """List builds whose time is over, and those whose removal has begun."""
        is_over = or_(ImageBuildRow.keep_until < now, ImageBuildRow.state == BuildState.REMOVING)
        query = select(ImageBuildRow).where(is_over).order_by(ImageBuildRow.keep_until)
        return [_build(row) for row in self.session.scalars(query.limit(limit))]

    def begin_removal(self, build_id: UUID, now: datetime) -> bool:
        """Mark an expired build as being removed, unless somebody keeps it again."""
        is_over = or_(ImageBuildRow.keep_until < now, ImageBuildRow.state == BuildState.REMOVING)
        return self._change(build_id, is_over, state=BuildState.REMOVING)

    def give_up(self, build_id: UUID) -> None:
        """Mark a build as being removed."""
        self._change(build_id, ImageBuildRow.id == build_id, state=BuildState.REMOVING)

    def remove(self, build_id: UUID) -> None:
        """Forget a build."""
        self.session.execute(delete(ImageBuildRow).where(ImageBuildRow.id == build_id))

    def _change(self, build_id: UUID, condition: ColumnElement[bool], **values: object) -> bool:
        query = update(ImageBuildRow).where(ImageBuildRow.id == build_id, condition)
        return bool(self.session.execute(query.values(**values).returning(ImageBuildRow.id)).all())


def _build(row: ImageBuildRow) -> ImageBuild:
    values = {name: getattr(row, name) for name in _FIELDS}
    return ImageBuild(**{**values, "layers": tuple(row.layers), "state": BuildState(row.state)})
