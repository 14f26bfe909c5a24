"""Writes the snapshot of base that adopts a layer: packs become its data files, positions its deletes.

See docs/protocols.md, rule 5.6.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from catalog.files.data_file import AddSnapshot
from catalog.ports.images import AdoptionParts
from server.files.layer_files import LayerFiles
from server.files.manifest_records import Entry
from server.files.manifests import Content, ManifestFile, Status
from server.files.partitions import Spec
from server.files.snapshots import SnapshotWriter
from server.files.storage import Storage


def write_adoption(storage: Storage, parts: AdoptionParts) -> AddSnapshot:
    """Write the manifests; see `catalog.ports.images.ImageFiles.write_adoption`."""
    writer = SnapshotWriter(storage, parts.base, parts.snapshot_id)
    files = LayerFiles(storage, parts.base, parts.change, parts.layer)
    try:
        inherited = writer.inherit()
        lines = [
            *_add(writer, files.list_packs(), Content.DATA),
            *_add(writer, files.list_hidden(inherited), Content.POSITION_DELETES),
            *_remove_vectors(writer, inherited, frozenset(parts.layer.replaced_vectors)),
        ]
        return writer.finish(lines, now_ms=parts.now_ms, summary_extra=parts.summary)
    except BaseException:
        writer.clean_up()
        raise


def _add(writer: SnapshotWriter, files: Iterable[tuple[Spec, Entry]], content: Content) -> list[ManifestFile]:
    """One new manifest for each partition spec."""
    by_spec: dict[int, tuple[Spec, list[Entry]]] = defaultdict()
    for spec, file in files:
        entry = {"status": Status.ADDED, "snapshot_id": writer.snapshot_id, "data_file": file}
        by_spec.setdefault(spec.spec_id, (spec, []))[1].append(entry)
    return [writer.add_manifest(entries, spec, content) for spec, entries in by_spec.values()]


def _remove_vectors(
    writer: SnapshotWriter, lines: Sequence[ManifestFile], replaced: frozenset[str]
) -> list[ManifestFile]:
    """The inherited manifests, without the vectors of these data files: their new vectors have all positions."""
    if not replaced:
        return list(lines)
    return [writer.without(line, lambda entry: _is_vector_of(entry, replaced)) for line in lines]


def _is_vector_of(entry: Entry, data_files: frozenset[str]) -> bool:
    file = entry["data_file"]
    return file["file_format"].upper() == "PUFFIN" and file.get("referenced_data_file") in data_files
