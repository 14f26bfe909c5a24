"""The histories of runs' inputs, by the metadata files that they had in the transaction that has read them."""

from __future__ import annotations

from catalog.history.change_feed import FeedHistory
from catalog.history.lineage import Lineage
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, list_schemas
from catalog.pipelines.checkpoint import InputState
from catalog.pipelines.pipeline import StoredCheckpoint, StoredPin
from server.service.commit.commit_target import load_metadata
from server.service.pipelines.pin_inputs import InputNow, find_pin
from server.service.tables.metadata_files import MetadataFiles


def load_input_state(metadata: MetadataFiles, entry: InputNow, since: StoredCheckpoint | None) -> InputState:
    """The history of an input at its pin."""
    documents = [load_metadata(metadata, store) for store in entry.stores]
    keeps_columns = _keeps_columns(documents[0], find_pin(since, entry))
    if entry.keyed is None:
        lineage = Lineage.of(documents[0])
        readable = lineage.ancestors(entry.snapshot_id)  # a bounded run pins an older one than the current one
        existing = set(map(str, lineage.snapshots))
        return InputState(
            pin=entry.pin, readable=set(map(str, readable)), existing=existing, keeps_columns=keeps_columns
        )
    base, change = documents
    history = FeedHistory(name=entry.name, keyed=entry.keyed, base=base, change=change, versions=entry.versions)
    versions = [version for version in entry.versions if version.version <= entry.keyed.version]
    left = {str(version.version) for version in versions if history.is_readable(version)}
    return InputState(pin=entry.pin, readable=left, existing=left, keeps_columns=keeps_columns)


def _keeps_columns(metadata: Json, stored: StoredPin | None) -> bool:
    """Whether all columns of the pinned state still have their names, ids and types.

    Otherwise rows of old files have other values now, although no file has changed.
    """
    if stored is None or stored.schema_id == metadata.get("current-schema-id"):
        return True
    schemas = {schema.get("schema-id"): schema for schema in list_schemas(metadata)}
    before, after = schemas.get(stored.schema_id), current_schema(metadata)
    if before is None:
        return False
    now = {field["name"]: (field["id"], field["type"]) for field in after["fields"]}
    return all(now.get(field["name"]) == (field["id"], field["type"]) for field in before["fields"])
