"""Builds the image of a pair, and keeps account of each build (docs/protocols.md, rules 5.3 to 5.5).

The order makes it safe: the build's row, its files, the metadata, and then the row's state. The row of a build that
dies stays, and retention deletes the files whose names it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

from catalog.errors import AlreadyExists, CatalogError, CommitUnknown, NotFound, Unavailable
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from catalog.keyed.image_build import BuildState, ImageBuild, has_written, keep_at_least
from catalog.names import RelationId
from catalog.ports.images import BuildTooLarge, ImageFiles, ImageParts, LayerBuilder
from catalog.ports.store import Database, UnitOfWork
from firn.protocol.tasks.image import Layer, LayerTask
from server.service.images.documents import load_image
from server.service.images.pair import (
    Pair,
    build_image_rule,
    count_new_bytes,
    find_image_below,
    make_layer_task,
    name_build,
)
from server.service.images.retention import remove_build
from server.service.tables.metadata_files import MetadataFiles

LONGEST_BUILD = timedelta(hours=1)
"""A build that takes longer counts as dead: its files are deleted, and it cannot complete any more."""
MOST_LOOKED_AT = 50
"""Builds of a table, the newest, among which an image below is looked for. A table with a commit each second gets as
many rows a minute, and keeps them for `firn.read.keep`."""
_EMPTY = Layer(packs=[], hidden=[], replaced_vectors=[], keys=0, hidden_rows=0)


@dataclass(frozen=True)
class ImageBuilder:
    """Builds one image at a time per caller; several servers may build the same one."""

    database: Database
    metadata: MetadataFiles
    builder: LayerBuilder
    files: ImageFiles
    most_pending_bytes: int
    most_key_bytes: int
    memory_bytes: int
    file_io: dict[str, str] = field(default_factory=dict)
    _large_bases: dict[RelationId, str] = field(default_factory=dict)
    """The metadata of bases whose keys are too large, so that readers do not list their files again and again."""

    def build(self, pair: Pair) -> ImageBuild:
        """Build the image of the pair; returns its build, or that of another server that was faster.

        Raises NotFound when a file of the stores is gone, Unavailable when the builder or the storage fails, and
        BuildTooLarge when more is to be read than the server may.
        """
        with self.database.reading() as uow:
            below = find_image_below(pair, uow.images.of_table(pair.relation.id, limit=MOST_LOOKED_AT))
        below = self._keep_if_readable(below)
        self._check_size(pair, below)
        build = self.begin(pair, below)
        try:
            layer = self._build_layer(pair, build, below)
        except CatalogError:
            self._discard(build)
            raise
        return self.finish(pair, build, layer, below)

    def _keep_if_readable(self, below: ImageBuild | None) -> ImageBuild | None:
        """Return the image, or None if its metadata is gone. Then the server gives it up, so that no build uses it."""
        if below is None:
            return None
        try:
            load_image(self.metadata, below)
        except NotFound:
            with self.database.writing() as uow:
                uow.images.give_up(below.id)
            return None
        return below

    def begin(self, pair: Pair, below: ImageBuild | None) -> ImageBuild:
        """Note down a build before its first file is written; returns it."""
        with self.database.writing() as uow:
            build = self._describe(uow, pair, below)
            uow.images.add(build)
            # Its row is locked until this commits: retention sees the new build then, or this sees the removal.
            if below is not None and not uow.images.keep(below.id, below.keep_until):
                raise Unavailable("an image is being removed", hint="Read the table again.")
        return build

    def finish(self, pair: Pair, build: ImageBuild, layer: Layer, below: ImageBuild | None) -> ImageBuild:
        """Write the image's manifests and metadata, whose data files the layer lists; failures as of `build`."""
        try:
            self._write(pair, build, below, layer)
        except AlreadyExists:
            return self._find_other(pair, build)
        except CatalogError:
            self._discard(build)
            raise
        return self._complete(pair, build)

    def limit_task(self, task: LayerTask) -> LayerTask:
        """The task with the server's limit of memory."""
        return task.model_copy(update={"memory_bytes": self.memory_bytes})

    def _check_size(self, pair: Pair, below: ImageBuild | None) -> None:
        """BuildTooLarge for more changes than the server may read. Those of the image below are not read again."""
        pending = pair.pin.keyed.pending_bytes if below is None else count_new_bytes(pair.pin.change, below)
        name = pair.relation.name
        if pending > self.most_pending_bytes:
            raise BuildTooLarge(
                f"{pending:,} bytes of changes are pending in {name}, more than the server merges while somebody reads",
                hint=f"An optimizer does it. Or merge with `firn table merge {name}`, or raise images.pending_bytes.",
            )
        if self._large_bases.get(pair.relation.id) == pair.key.base_metadata:
            raise BuildTooLarge(
                f"base of {name} has more keys than the server reads while somebody waits",
                hint="An optimizer reads them. Or raise images.key_bytes.",
            )

    def _describe(self, uow: UnitOfWork, pair: Pair, below: ImageBuild | None) -> ImageBuild:
        name, now = name_build(pair.key), uow.now()
        newest = next(iter(uow.images.of_table(pair.relation.id, limit=1)), None)
        change = current_snapshot(pair.pin.change)
        return ImageBuild(
            relation_id=pair.relation.id,
            digest=pair.key.etag,
            snapshot_id=pair.key.snapshot_id,
            name=name,
            directory=pair.directory,
            metadata_location=pair.key.metadata_location(pair.relation.location.rstrip("/")),
            base_snapshot_id=pair.key.base_snapshot_id,
            change_snapshot_id=pair.key.change_snapshot_id,
            change_sequence=0 if change is None else change["sequence-number"],
            base_metadata=pair.key.base_metadata,
            format_version=pair.key.format_version,
            hides=pair.key.hides,
            layers=(*(() if below is None else below.layers), name),
            # Builds are sorted by this time: after the clock was set back, the newest one still comes first.
            started_at=now if newest is None else max(now, newest.started_at + timedelta(microseconds=1)),
            keep_until=now + LONGEST_BUILD,
        )

    def _build_layer(self, pair: Pair, build: ImageBuild, below: ImageBuild | None) -> Layer:
        if not pair.needs_builder:
            return _EMPTY
        with self.database.reading() as uow:
            rule = build_image_rule(uow, self.database, self.metadata.files, pair.pin)
        limits = {"file_io": self.file_io, "most_key_bytes": self.most_key_bytes}
        task = self.limit_task(make_layer_task(pair, build.name, below)).model_copy(update=limits)
        try:
            return self.builder.build(task, rule.check)
        except BuildTooLarge:
            self._large_bases[pair.relation.id] = pair.key.base_metadata
            raise

    def _write(self, pair: Pair, build: ImageBuild, below: ImageBuild | None, layer: Layer) -> None:
        with self.database.reading() as uow:
            rule = build_image_rule(uow, self.database, self.metadata.files, pair.pin)
            builds = uow.images.of_table(pair.relation.id, limit=MOST_LOOKED_AT)
        base = pair.pin.base if below is None else load_image(self.metadata, below).parsed
        parts = ImageParts(
            key=pair.key,
            base=base,
            change=pair.pin.change,
            base_version=pair.pin.base["format-version"],
            sequence_number=pair.pin.base["last-sequence-number"] + 1,
            layer=layer,
            directory=build.directory,
            name=f"{build.name}-{uuid4().hex[:8]}",  # a server may have died while it wrote the same manifests
            table_location=pair.relation.location.rstrip("/"),
            earlier=self._list_earlier(build, builds),
        )
        self.files.write(parts, rule)

    def _list_earlier(self, build: ImageBuild, builds: Sequence[ImageBuild]) -> list[Json]:
        """The snapshots that the newest complete image lists, newest first; those of removed images are left out."""
        newest = next((other for other in builds if other.state is BuildState.COMPLETE), None)
        if newest is None or newest.format_version != build.format_version:
            return []
        kept = {other.snapshot_id for other in builds if other.state is BuildState.COMPLETE}
        with suppress(NotFound):
            snapshots = load_image(self.metadata, newest).parsed["snapshots"]
            return [snapshot for snapshot in reversed(snapshots) if snapshot["snapshot-id"] in kept]
        return []

    def _complete(self, pair: Pair, build: ImageBuild) -> ImageBuild:
        with self.database.writing() as uow:
            is_kept = uow.images.complete(build.id, keep_at_least(pair.policy["firn.read.keep"], uow.now()))
        if not is_kept:
            self._discard(build)  # what it has written since retention deleted its files
            raise Unavailable(f"building the image of {pair.relation.name} took too long", hint="Read the table again.")
        return build

    def _find_other(self, pair: Pair, build: ImageBuild) -> ImageBuild:
        """Find the build of the same image by another server, or by one that died before it completed the row.

        It is this build itself if a request to complete it comes twice.
        """
        written = self.metadata.load_anew(build.metadata_location).parsed
        if written["snapshots"] and has_written(build, written):
            return self._complete(pair, build)
        self._discard(build)
        with self.database.writing() as uow:
            others = [other for other in uow.images.of_table(pair.relation.id) if other.digest == build.digest]
            for other in others:
                if has_written(other, written) and uow.images.complete(
                    other.id, keep_at_least(pair.policy["firn.read.keep"], uow.now())
                ):
                    return other
        if not others:  # a database that was restored from a copy does not know it
            self.metadata.discard(build.metadata_location)
        raise Unavailable(f"the image of {pair.relation.name} is being removed", hint="Read the table again.")

    def _discard(self, build: ImageBuild) -> None:
        """Delete the files of a failed build; if this fails, retention deletes them."""
        with suppress(CatalogError, CommitUnknown):
            with self.database.writing() as uow:
                uow.images.give_up(build.id)
            remove_build(self.database, self.metadata, self.files, build)
