"""Deletes images that nobody reads any more, and the files of builds that died (docs/protocols.md, rule 5.5)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from catalog.errors import CatalogError, CommitUnknown, NotFound
from catalog.keyed.image_build import BuildState, ImageBuild, has_written, is_read, list_removable
from catalog.ports.images import ImageFiles
from catalog.ports.store import Database
from server.service.tables.metadata_files import MetadataFiles

BUILDS_PER_RUN = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRetentionStatus:
    """Counts of one run."""

    removed_images: int = 0
    deleted_files: int = 0
    failed: int = 0


class _InUseError(Exception):
    """Ends the transaction of a removal that has to wait."""


@dataclass(frozen=True)
class ImageRetention:
    """Several servers may run it at any time. It needs no table: images of dropped tables go like all others."""

    database: Database
    metadata: MetadataFiles
    files: ImageFiles

    def activate(self) -> ImageRetentionStatus:
        """Remove expired images. After a kill, the next run goes on with those whose removal has begun."""
        status = ImageRetentionStatus()
        with self.database.reading() as uow:
            expired = uow.images.expired(uow.now(), limit=BUILDS_PER_RUN)
        for build in expired:
            try:
                status = self._remove(build, status)
            except (CatalogError, CommitUnknown):  # the next run starts from the state in the database
                status = replace(status, failed=status.failed + 1)
        return status

    def _remove(self, build: ImageBuild, status: ImageRetentionStatus) -> ImageRetentionStatus:
        with suppress(_InUseError):
            with self.database.writing() as uow:
                if not uow.images.begin_removal(build.id, uow.now()):
                    return status
                if is_read(build, uow.images.of_table(build.relation_id), uow.now()):
                    raise _InUseError
            return self._delete(build, status)
        return status

    def _delete(self, build: ImageBuild, status: ImageRetentionStatus) -> ImageRetentionStatus:
        deleted = remove_build(self.database, self.metadata, self.files, build)
        return replace(status, removed_images=status.removed_images + 1, deleted_files=status.deleted_files + deleted)


def remove_build(database: Database, metadata: MetadataFiles, files: ImageFiles, build: ImageBuild) -> int:
    """Delete the files of a build whose removal has begun, and its row; returns the number of files.

    The metadata goes first: a later build of the same image would take it for its own. Files that other builds of the
    table need stay.
    """
    with database.reading() as uow:
        others = [other for other in uow.images.of_table(build.relation_id) if other.id != build.id]
    if _owns_metadata(metadata, build, others):
        metadata.discard(build.metadata_location)
    deleted = files.remove(build.directory, list_removable(build, others))
    with database.writing() as uow:
        uow.images.remove(build.id)
    return deleted


def _owns_metadata(metadata: MetadataFiles, build: ImageBuild, others: Sequence[ImageBuild]) -> bool:
    """Whether no other build may have written the metadata at the image's location, which builds of one image share.

    A manifest list has the name of its build. The image of an empty table has none, so any build may have written it.
    """
    with suppress(NotFound):
        written = metadata.load_anew(build.metadata_location).parsed
        if written["snapshots"]:
            return has_written(build, written)
        return all(other.digest != build.digest or other.state is BuildState.REMOVING for other in others)
    return False
