"""The files of a layer as manifests describe them: packs and hidden positions, each with its partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from catalog.errors import Unavailable
from catalog.files.data_file import DataFileEntry
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, current_snapshot
from catalog.keyed.image import find_same_spec
from firn.protocol.tasks.image import HiddenPositions, Layer, Pack
from server.files.footers import Footers
from server.files.manifest_records import Entry
from server.files.manifests import Content, ManifestFile, Manifests, build_entry
from server.files.partitions import Spec
from server.files.storage import Storage

_PATH = 2147483546
_Partitions = Mapping[str, tuple[Spec, Any]]


class LayerFiles:
    """Describes a layer's files. `base` is the metadata of the table that gets them."""

    def __init__(self, storage: Storage, base: Json, change: Json, layer: Layer) -> None:
        self._storage = storage
        self._base = base
        self._change = change
        self._layer = layer
        self._manifests = Manifests(storage, base)

    def list_packs(self) -> Iterator[tuple[Spec, Entry]]:
        """The packs as data files. Each has the partition of a change file, under base's spec of the same kind.

        Unavailable if a change file is not in the change store's snapshot, Invalid if base has no such spec.
        """
        packs, snapshot = self._layer.packs, current_snapshot(self._change)
        manifests = Manifests(self._storage, self._change)
        lines = manifests.of_snapshot(snapshot) if snapshot and packs else []
        partitions = find_partitions(manifests, lines, {pack.like for pack in packs})
        yield from self._describe(packs, (self._partition_of(partitions, pack) for pack in packs))

    def _describe(self, packs: Sequence[Pack], places: Iterable[tuple[Spec, Any]]) -> Iterator[tuple[Spec, Entry]]:
        footers = Footers(self._storage, current_schema(self._base))
        stats_of_packs = footers.read_all([pack.location for pack in packs])
        for stats, (spec, values) in zip(stats_of_packs, places, strict=True):
            yield spec, build_entry(DataFileEntry(stats=stats, partition=values), spec, 0)["data_file"]

    def list_rewritten(self, inherited: Sequence[ManifestFile]) -> Iterator[tuple[Spec, Entry]]:
        """The data files that replace files of base, each with the partition and spec of one of these.

        `inherited` are base's manifests. Unavailable for a file that is not there.
        """
        packs = self._layer.rewritten
        partitions = find_partitions(self._manifests, inherited, {pack.like for pack in packs})
        yield from self._describe(packs, (_get(partitions, pack.like) for pack in packs))

    def list_hidden(self, inherited: Sequence[ManifestFile]) -> Iterator[tuple[Spec, Entry]]:
        """The positions as delete files; `inherited` are base's manifests. Unavailable for a file that is not there."""
        wanted = {hidden.data_files[0] for hidden in self._layer.hidden}
        partitions = find_partitions(self._manifests, inherited, wanted)
        for hidden in self._layer.hidden:
            spec, values = _get(partitions, hidden.data_files[0])
            yield spec, _describe_hidden(hidden, spec.record(values))

    def _partition_of(self, partitions: _Partitions, pack: Pack) -> tuple[Spec, Any]:
        spec, values = _get(partitions, pack.like)
        same = find_same_spec(self._base, {"spec-id": spec.spec_id, "fields": spec.json_fields})
        return self._manifests.spec(same), values


def find_partitions(manifests: Manifests, lines: Iterable[ManifestFile], wanted: set[str]) -> _Partitions:
    """Spec and partition of these data files; the search ends when all are found."""
    by_path: dict[str, tuple[Spec, Any]] = {}
    for line in lines:
        if line["content"] or len(by_path) == len(wanted):
            continue
        spec = manifests.spec(line["partition_spec_id"])
        for entry in manifests.entries(line, with_maps=False):
            path = entry["data_file"]["file_path"]
            if path in wanted:
                by_path[path] = spec, spec.values(entry["data_file"]["partition"], entry["names"])
    return by_path


def _describe_hidden(hidden: HiddenPositions, partition: dict[str, Any]) -> Entry:
    file: dict[str, Any] = {
        "content": Content.POSITION_DELETES,
        "file_path": hidden.location,
        "file_format": "PARQUET" if hidden.offset is None else "PUFFIN",
        "partition": partition,
        "record_count": hidden.rows,
        "file_size_in_bytes": hidden.size,
        "referenced_data_file": hidden.data_files[0] if len(hidden.data_files) == 1 else None,
    }
    if hidden.offset is not None:
        return file | {"content_offset": hidden.offset, "content_size_in_bytes": hidden.length}
    paths = sorted(hidden.data_files)
    return file | {"lower_bounds": {_PATH: paths[0].encode()}, "upper_bounds": {_PATH: paths[-1].encode()}}


def _get(partitions: _Partitions, path: str) -> tuple[Spec, Any]:
    if path not in partitions:
        raise Unavailable(f"{path} is not in the snapshot that the layer is built from", hint="Build it again.")
    return partitions[path]
