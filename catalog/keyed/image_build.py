"""One build of an image, as the database knows it: who needs its files, and until when they are kept.

The files of a build have names that begin with `name`, in `directory`. Its row comes before its first file and goes
after its last one, so files of a killed builder are always known (docs/protocols.md, rules 5.3 and 5.5).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID, uuid4

from catalog.iceberg.json import Json
from catalog.names import RelationId
from catalog.tables.relation import Relation

_FEWEST_LAYERS, _MOST_LAYERS = 4, 16
_COMMITS_PER_LAYER = 16


def count_allowed_layers(pending_commits: int) -> int:
    """How many layers an image may have before it is built from scratch.

    Each layer costs readers some files. A build from scratch reads the files of all pending commits: the more there
    are, the rarer it has to be.
    """
    return min(max(_FEWEST_LAYERS, pending_commits // _COMMITS_PER_LAYER), _MOST_LAYERS)


class BuildState(StrEnum):
    """The state of a build."""

    BUILDING = "building"
    COMPLETE = "complete"  # its metadata is written: the image can be served
    REMOVING = "removing"  # its files are being deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBuild:
    """A build of an image. `layers` names the builds whose packs and positions the image has, its own at the end."""

    relation_id: RelationId
    digest: str
    snapshot_id: int
    """Of the image, in its metadata and in that of later images."""
    name: str
    directory: str
    metadata_location: str
    base_snapshot_id: int | None
    change_snapshot_id: int | None
    change_sequence: int
    base_metadata: str
    format_version: int
    hides: str | None
    """The rows that the image leaves out because they are too old."""
    layers: tuple[str, ...]
    started_at: datetime
    keep_until: datetime
    state: BuildState = BuildState.BUILDING
    id: UUID = field(default_factory=uuid4)


def keep_at_least(keep: timedelta, now: datetime) -> datetime:
    """Until when to keep an image that is served now: for at least `keep` after each read.

    The database learns of a read only when less than `keep` is left. The tenth more saves most of these writes.
    """
    return now + keep * 1.1


def has_written(build: ImageBuild, metadata: Json) -> bool:
    """Whether the build has written this metadata of its image: a manifest list has the name of its build.

    The image of an empty table has no manifest list, and is the same for every build.
    """
    snapshots = metadata["snapshots"]
    return not snapshots or build.name in snapshots[-1]["manifest-list"]


def list_removable(build: ImageBuild, others: Iterable[ImageBuild]) -> list[str]:
    """The names of builds whose files go with this one: its layers that no other build of the table needs.

    Others that are being removed need nothing, except that each deletes its own metadata first.
    """
    needed = {name for other in others if other.state is not BuildState.REMOVING for name in other.layers}
    return [name for name in build.layers if name not in needed]


def is_read(build: ImageBuild, others: Iterable[ImageBuild], now: datetime) -> bool:
    """Whether a running build may grow from this one, and read its metadata."""
    running = (other for other in others if other.state is BuildState.BUILDING and other.keep_until > now)
    return any(build.name in other.layers for other in running if other.id != build.id)


def list_protected(builds: Collection[ImageBuild], now: datetime, *, is_base: bool) -> frozenset[int]:
    """The snapshots of base, or of the change store, that images show and builders read, as long as they are kept."""
    kept = (build for build in builds if build.state is not BuildState.REMOVING and build.keep_until > now)
    ids = (build.base_snapshot_id if is_base else build.change_snapshot_id for build in kept)
    return frozenset(snapshot_id for snapshot_id in ids if snapshot_id is not None)


def list_image_directories(relation: Relation) -> list[str]:
    """The directories of a keyed table's images: first that of data files and manifests, then that of metadata."""
    root = relation.location.rstrip("/")
    return [f"{root}/merged", f"{root}/metadata"]


def list_file_prefixes(builds: Iterable[ImageBuild]) -> set[str]:
    """The beginnings of the names of all files that these builds have written, write or show.

    A file in the directory of images with another name is no image's, now and later: the row of a build comes before
    its first file, and no two builds have one name (docs/protocols.md, rule 5.13).
    """
    return {f"{name}-" for build in builds for name in (build.name, *build.layers)}
