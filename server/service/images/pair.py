"""The pair of snapshots that a reader of a keyed table is to see, and the image that shows it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from uuid import uuid4

from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot, current_snapshot_id
from catalog.keyed.image import FIRST_WITH_VECTORS, ImageKey, choose_format_version
from catalog.keyed.image_build import BuildState, ImageBuild, count_allowed_layers, list_image_directories
from catalog.keyed.partial import is_partial
from catalog.locations.links import Links
from catalog.locations.location_rule import FileRule, list_own_locations
from catalog.names import CatalogName, TableName
from catalog.policy.policy import Policy
from catalog.ports.store import Database, UnitOfWork
from catalog.retention.at_read import describe_hidden
from catalog.retention.ttl import Cutoff
from catalog.tables.relation import Relation
from firn.protocol.tasks.image import LayerTask, OldRows
from server.service.locations.location_rule import build_file_rule
from server.service.planning.policies import load_policy
from server.service.tables.keyed_tables import KeyedTables, Pin, find_keyed
from server.service.tables.read_cutoffs import find_read_cutoff


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Both stores of a keyed table at one moment, the key of their image, and the table's policy."""

    pin: Pin
    key: ImageKey
    policy: Policy
    cutoff: Cutoff | None = None
    """The time before which rows are too old for reads; None if reads hide none."""

    @property
    def relation(self) -> Relation:
        """The keyed table."""
        return self.pin.relation

    @property
    def directory(self) -> str:
        """The directory of the image's files, except its metadata."""
        return list_image_directories(self.relation)[0]

    @property
    def needs_builder(self) -> bool:
        """Whether the image differs from base, or has to turn vectors of base into position deletes."""
        if self.pin.pending or self.cutoff is not None:
            return True
        summary = (current_snapshot(self.pin.base) or {}).get("summary") or {}
        has_deletes = summary.get("total-delete-files", "1") != "0" and current_snapshot(self.pin.base) is not None
        is_v2 = self.key.format_version < FIRST_WITH_VECTORS
        return is_v2 and has_deletes and self.pin.base["format-version"] >= FIRST_WITH_VECTORS


def read_pair(uow: UnitOfWork, tables: KeyedTables, catalog: CatalogName, name: TableName) -> Pair:
    """The pair that readers are to see now (docs/protocols.md, rule 5.2). Raises NoSuchTable."""
    relation = find_keyed(uow, catalog, name)
    pin = tables.pin_relation(uow, relation)
    policy = load_policy(uow, relation, pin.base.get("properties") or {})
    cutoff = find_read_cutoff(uow, relation, pin.base, policy=policy)
    key = ImageKey(
        table_uuid=relation.id,
        base_snapshot_id=current_snapshot_id(pin.base),
        change_snapshot_id=current_snapshot_id(pin.change),
        watermark=pin.keyed.watermark,
        schema_id=pin.base["current-schema-id"],
        format_version=choose_format_version(pin.base, policy["firn.read.format-version"]),
        base_metadata=pin.base_store.metadata_location or "",
        hides=None if cutoff is None else describe_hidden(cutoff),
    )
    return Pair(pin=pin, key=key, policy=policy, cutoff=cutoff)


def build_image_rule(uow: UnitOfWork, database: Database, links: Links, pin: Pin) -> FileRule:
    """The rule for the files that an image names or is built from: those of both stores, and Firn's own."""
    rule = build_file_rule(uow, database, links, pin.base_store, pin.base)
    own = (*rule.own, *list_own_locations(pin.change), *list_image_directories(pin.relation))
    return replace(rule, table=str(pin.relation.name), own=own)


def find_image_below(pair: Pair, builds: Collection[ImageBuild]) -> ImageBuild | None:
    """The newest image that a layer can be added to (docs/protocols.md, rule 5.4); None for a build from base.

    With a sequence field, merged deletes decide, too, and they are in no image: such images are always built anew. If
    reads hide old rows, this also holds where rows of base decide what a change does (rule 5.14).
    """
    spec = pair.pin.keyed.spec
    depends = spec.is_insert_only or is_partial(pair.pin.change)
    if spec.sequence_field is not None or not pair.pin.pending or (pair.cutoff is not None and depends):
        return None
    for build in builds:
        key = pair.key
        is_same = (build.base_metadata, build.format_version, build.hides) == (
            key.base_metadata,
            key.format_version,
            key.hides,
        )
        if build.state is BuildState.COMPLETE and is_same and _only_appended(pair.pin.change, build):
            allowed = count_allowed_layers(pair.pin.keyed.pending_commits)
            return build if len(build.layers) < allowed else None
    return None


def _only_appended(change: Json, build: ImageBuild) -> bool:
    """Whether every commit on the change store since the build has only added files."""
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in change["snapshots"]}
    snapshot = current_snapshot(change)
    while snapshot is not None and snapshot["snapshot-id"] != build.change_snapshot_id:
        if snapshot["summary"]["operation"] != "append":
            return False
        snapshot = by_id.get(snapshot.get("parent-snapshot-id"))
    return snapshot is not None


def count_new_bytes(change: Json, build: ImageBuild) -> int:
    """The bytes of the change files that a layer on this image reads: those of the appends since."""
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in change["snapshots"]}
    snapshot, size = current_snapshot(change), 0
    while snapshot is not None and snapshot["snapshot-id"] != build.change_snapshot_id:
        size += int(snapshot["summary"].get("added-files-size", 0))
        snapshot = by_id.get(snapshot.get("parent-snapshot-id"))
    return size


def make_layer_task(pair: Pair, name: str, below: ImageBuild | None) -> LayerTask:
    """The task of the builder: a layer on the image below, or on base."""
    keyed, cutoff = pair.pin.keyed, pair.cutoff
    of_base = below is None
    return LayerTask(
        base_metadata=pair.key.base_metadata if below is None else below.metadata_location,
        change_metadata=pair.pin.change_store.metadata_location or "",
        primary_key=list(keyed.spec.primary_key),
        sequence_field=keyed.spec.sequence_field,
        insert_only=keyed.spec.is_insert_only,
        hides=None if cutoff is None else OldRows(field_id=cutoff.field_id, value=cutoff.value, of_base=of_base),
        watermark=keyed.watermark,
        since=0 if below is None else below.change_sequence,
        directory=pair.directory,
        name=name,
        format_version=pair.key.format_version,
    )


def name_build(key: ImageKey) -> str:
    """A name for a build's files that no other build has."""
    return key.name_build(uuid4().hex[:12])
