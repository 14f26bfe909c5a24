"""Builds, writes and remembers images of keyed tables (docs/protocols.md#images)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from catalog.errors import Unavailable
from catalog.files.data_file import AddSnapshot, DataFileEntry, PartitionValue
from catalog.iceberg.json import Json
from catalog.keyed.image import ImageKey
from catalog.keyed.image_build import ImageBuild
from catalog.locations.location_rule import FileRule
from catalog.names import RelationId
from firn.protocol.tasks.feed import FeedRows, FeedTask, QuarantineRows, QuarantineTask
from firn.protocol.tasks.image import (
    DeletedRows,
    DeletesTask,
    KeyReport,
    KeysTask,
    Layer,
    LayerTask,
    Pack,
    UpsertedRows,
    UpsertsTask,
)


class BuildTooLarge(Unavailable):
    """The image is too large for the server: an optimizer's job builds it."""


class LayerBuilder(Protocol):
    """Builds the data files of an image's layer."""

    def build(self, task: LayerTask, check: Callable[[Sequence[str]], None]) -> Layer:
        """Write the layer's files.

        The builder calls `check` with the files of the pair before it opens them; what `check` raises ends the build
        and is raised here. Raises NotFound for a file that is gone, BuildTooLarge above the task's limits or when it
        takes too long, and Unavailable when the builder fails or dies. Files of a failed build may be left, and nothing
        names them.
        """

    def stop(self) -> None:
        """End a running build and the builder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageParts:
    """What an image is made of.

    `base` and `change` are the pair's metadata, each at the image's snapshot; `base` may be that of the image below.
    `sequence_number`, one above that of the base store, is that of all files of images over it: positions hide rows of
    files with the same number, too. The manifests go to `directory`, with names that begin with `name`.
    """

    key: ImageKey
    base: Json
    change: Json
    base_version: int
    """The format version of base itself, in which its manifests may be."""
    sequence_number: int
    layer: Layer
    directory: str
    name: str
    table_location: str
    earlier: Sequence[Json] = ()
    """The snapshots of earlier images that are kept, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionParts:
    """What a snapshot of base is made of that adopts a layer.

    `base` has the snapshot that the layer was built on as its head. `change` has the change files that the packs are
    like. `summary` is added to the snapshot's counts.
    """

    base: Json
    change: Json
    layer: Layer
    snapshot_id: int
    now_ms: int
    summary: Mapping[str, str]


class ImageFiles(Protocol):
    """Files of images in the warehouse."""

    def write(self, parts: ImageParts, rule: FileRule) -> tuple[str, Json]:
        """Write manifests, manifest list and, at the end, metadata; returns the metadata's location and the metadata.

        `rule` confines the reading of base's and change's files. NotFound for a file that is gone, Unavailable when
        storage fails or the pair does not fit the layer: what was written then belongs to nobody. AlreadyExists when
        somebody has written the same image meanwhile.
        """

    def write_adoption(self, parts: AdoptionParts, rule: FileRule) -> AddSnapshot:
        """Write the manifests of a child of base's head that has the layer's files. `rule` confines what is read.

        NotFound for a file that is gone, Invalid or Unavailable when base or change do not fit the layer. The result
        lists the written manifests, so that a refused commit can delete them.
        """

    def remove(self, directory: str, names: Collection[str]) -> int:
        """Delete all files in the directory that belong to these builds; returns their number."""


class ImageBuilds(Protocol):
    """Builds of images in the database."""

    def add(self, build: ImageBuild) -> None: ...

    def find(self, relation_id: RelationId, digest: str) -> ImageBuild | None:
        """The complete build of an image."""

    def find_snapshot(self, relation_id: RelationId, snapshot_id: int, now: datetime) -> ImageBuild | None:
        """The complete build of the image with this snapshot, if it is still kept.

        Once its time is over, its snapshot of base may be expired.
        """

    def of_table(self, relation_id: RelationId, *, limit: int | None = None) -> Sequence[ImageBuild]:
        """The builds of a table, the newest first; all, or this many."""

    def kept(self, relation_id: RelationId, snapshot_ids: Collection[int], now: datetime) -> Collection[int]:
        """Return the snapshots whose image is complete and still kept."""

    def complete(self, build_id: UUID, keep_until: datetime) -> bool:
        """Mark a build as complete; False when it is being removed meanwhile."""

    def keep(self, build_id: UUID, until: datetime) -> bool:
        """Keep a complete build so long; False when it is being removed."""

    def expired(self, now: datetime, *, limit: int) -> Sequence[ImageBuild]:
        """List expired builds, and those whose removal has begun."""

    def begin_removal(self, build_id: UUID, now: datetime) -> bool:
        """Mark an expired build for removal; False if a reader keeps it again."""

    def give_up(self, build_id: UUID) -> None:
        """Mark a build as being removed, whatever its time: its files are gone or were never whole."""

    def remove(self, build_id: UUID) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SentFile:
    """A file that a commit under a keyed table's own name adds, as the engine describes it, unchecked."""

    location: str
    content: int  # 0 data, 1 position deletes or a deletion vector, 2 equality deletes
    format: str
    spec_id: int
    partition: tuple[PartitionValue, ...]
    is_removed: bool = False
    equality_ids: frozenset[int] = frozenset()
    """Of equality deletes: the fields that a deleted row has in common with one of the file's rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRows:
    """The rows of a commit, as files of changes: deletes first, then upserts.

    `written` are files that the server has written itself and that several tries to commit may use. If the deletes
    depend on an image, each try has its own.
    """

    upserts: Sequence[DataFileEntry]
    deletes: Sequence[DataFileEntry] = ()
    written: Sequence[str] = ()
    depends_on_image: bool = False
    """Whether the deletes were judged by an image: rows that a statement has read."""


class SentFiles(Protocol):
    """Reads the files that engines write for a keyed table's own name, and appends them to its change store."""

    def list_files(self, base: Json, snapshot: Json, rule: FileRule) -> Sequence[SentFile]:
        """The files that a snapshot adds or removes. The engine wrote its manifests with base's partition specs.

        `rule` confines the reading. Invalid for a snapshot that cannot be read, NotFound when its files are gone,
        Unavailable when storage fails.
        """

    def describe(self, base: Json, files: Sequence[SentFile], rule: FileRule) -> Sequence[DataFileEntry]:
        """The data files with the statistics of their own footers. Invalid for one that does not fit base's schema."""

    def append(
        self, change: Json, rows: SentRows, *, snapshot_id: int, now_ms: int, summary: Mapping[str, str]
    ) -> AddSnapshot:
        """Write the manifests of an append to the change store."""

    def describe_deletes(
        self, image: Json, change: Json, files: Sequence[Pack], rule: FileRule
    ) -> Sequence[DataFileEntry]:
        """The files of deletes that the checker has written, with the partitions of the image's files that they are
        like. Invalid for one of an earlier partition spec.
        """

    def describe_changes(
        self, change: Json, files: Sequence[SentFile], rule: FileRule, *, comes_first: bool = False
    ) -> Sequence[DataFileEntry]:
        """Parquet files with columns of the change store, with the statistics of their own footers."""

    def discard(self, locations: Iterable[str]) -> None:
        """Delete files that a refused append has left."""


class KeyChecker(Protocol):
    """Reads the keys of files that an engine sent, and of rows that it deletes."""

    def read_upserts(self, task: UpsertsTask, check: Callable[[Sequence[str]], None]) -> UpsertedRows:
        """Turn the files of a commit with equality deletes into changes. See `LayerBuilder.build`."""

    def find_deleted(self, task: DeletesTask, check: Callable[[Sequence[str]], None]) -> DeletedRows:
        """Write a row with `_op` 'D' for each row that a statement deletes. See `LayerBuilder.build`."""

    def check_keys(self, task: KeysTask, check: Callable[[Sequence[str]], None]) -> KeyReport:
        """Find null and repeated keys. See `LayerBuilder.build` for `check` and for failures."""

    def stop(self) -> None:
        """End a running check and the checker."""


class FeedReader(Protocol):
    """Reads changes and bad records of keyed tables."""

    def read_feed(self, task: FeedTask, check: Callable[[Sequence[str]], None]) -> FeedRows:
        """Read the changes of a plan. Invalid if they cannot be read. See `LayerBuilder.build` for other failures."""

    def read_quarantine(self, task: QuarantineTask, check: Callable[[Sequence[str]], None]) -> QuarantineRows:
        """Read records of a quarantine. See `LayerBuilder.build` for `check` and for failures."""

    def stop(self) -> None:
        """End a running task and the reader."""
