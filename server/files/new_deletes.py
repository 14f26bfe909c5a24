"""The delete files that a snapshot adds, read from its manifests because a summary can be wrong."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.errors import Invalid
from catalog.files.manifest_entries import NewDeletes
from catalog.iceberg.json import Json
from catalog.iceberg.reading import snapshot_by_id, unlisted_manifests
from firn.protocol.locations import lies_in, normalize_location
from server.files.manifests import Content, ManifestFile, Manifests, Status
from server.files.storage import Storage


def find_new_deletes(storage: Storage, metadata: Json, snapshot: Json) -> NewDeletes:
    """Find the kinds of delete files that a snapshot adds.

    Invalid for manifests outside the table, NotFound for missing ones, Damaged or one of MALFORMED for broken ones.
    """
    manifests = Manifests(storage, metadata)
    lines = [line for line in _read_lines(manifests, metadata, snapshot) if line.get("content")]
    if not lines:
        return NewDeletes()
    parent = snapshot_by_id(metadata, snapshot.get("parent-snapshot-id") or -1)
    inherited = set() if parent is None else {line["manifest_path"] for line in manifests.of_snapshot(parent)}
    contents = {
        entry["data_file"]["content"]
        for line in lines
        if line["manifest_path"] not in inherited and _check_inside(metadata, line["manifest_path"])
        for entry in manifests.entries(line, with_maps=False)
        if entry["status"] == Status.ADDED
    }
    return NewDeletes(
        positions=Content.POSITION_DELETES in contents,
        equality=not contents <= {Content.DATA, Content.POSITION_DELETES},
    )


def _read_lines(manifests: Manifests, metadata: Json, snapshot: Json) -> Sequence[ManifestFile]:
    """Read the manifest list, only from the table's own directories, because the server uses its own permissions."""
    list_location = snapshot.get("manifest-list")
    for location in unlisted_manifests(snapshot) if list_location is None else [list_location]:
        _check_inside(metadata, location)
    return manifests.of_snapshot(snapshot)


def _check_inside(metadata: Json, location: str) -> bool:
    """Check that a location is inside the table's directories: True, or Invalid."""
    directories = [metadata["location"], (metadata.get("properties") or {}).get("write.metadata.path")]
    normalized = normalize_location(location)
    if not any(directory and lies_in(normalized, normalize_location(directory)) for directory in directories):
        raise Invalid(f"{location} is outside the table's directory", hint="write metadata below its location")
    return True
