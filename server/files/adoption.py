"""Writes the snapshot of base that adopts a layer: packs become its data files, positions its deletes.

Files of base that the layer has written again leave base, with the deletes that apply to them alone.

See docs/protocols.md, rule 5.6.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain

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
        removed = frozenset([*parts.layer.removed_files, *parts.layer.removed_deletes])
        lines = [
            *_add(writer, chain(files.list_packs(), files.list_rewritten(inherited)), Content.DATA),
            *_add(writer, files.list_hidden(inherited), Content.POSITION_DELETES),
            *writer.remove(inherited, removed, replaced_vectors=frozenset(parts.layer.replaced_vectors)),
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
