"""The delete files that a snapshot adds, found in its manifests: a summary may say anything."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.errors import Invalid
from catalog.files.manifest_entries import NewDeletes
from catalog.iceberg.json import Json
from catalog.iceberg.reading import snapshot_by_id, unlisted_manifests
from firn.protocol.locations import lies_in, normalize_location
from server.files.manifests import Content, ManifestFile, Manifests, Status
from server.files.storage import Storage


def new_deletes(storage: Storage, metadata: Json, snapshot: Json) -> NewDeletes:
    """Invalid for files outside of the table, NotFound for missing ones, Damaged or MALFORMED for others."""
    manifests = Manifests(storage, metadata)
    lines = [line for line in _lines(manifests, metadata, snapshot) if line.get("content")]
    if not lines:
        return NewDeletes()
    parent = snapshot_by_id(metadata, snapshot.get("parent-snapshot-id") or -1)
    inherited = set() if parent is None else {line["manifest_path"] for line in manifests.of_snapshot(parent)}
    contents = {
        entry["data_file"]["content"]
        for line in lines
        if line["manifest_path"] not in inherited and _is_inside(metadata, line["manifest_path"])
        for entry in manifests.entries(line, whole=False)
        if entry["status"] == Status.ADDED
    }
    return NewDeletes(
        positions=Content.POSITION_DELETES in contents,
        equality=not contents <= {Content.DATA, Content.POSITION_DELETES},
    )


def _lines(manifests: Manifests, metadata: Json, snapshot: Json) -> Sequence[ManifestFile]:
    """Read with the server's rights, so only where the table has its metadata."""
    listed = snapshot.get("manifest-list")
    for location in unlisted_manifests(snapshot) if listed is None else [listed]:
        _is_inside(metadata, location)
    return manifests.of_snapshot(snapshot)


def _is_inside(metadata: Json, location: str) -> bool:
    """True; Invalid when it is not."""
    own = [metadata["location"], (metadata.get("properties") or {}).get("write.metadata.path")]
    if not any(place and lies_in(normalize_location(location), normalize_location(place)) for place in own):
        raise Invalid(f"{location} lies outside of the table's directory", hint="write metadata below its location")
    return True
