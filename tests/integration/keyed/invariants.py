"""What holds for a keyed table's stores after every step (docs/protocols.md#invariants)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from server.files.manifests import Manifests
from server.files.storage import Storage
from tests.integration.keyed.appends import Json, Store

MERGED_THROUGH = "firn.merged-through"


def check_watermarks(base: Json) -> None:
    """On every base snapshot, and never below that of an older one."""
    snapshots = sorted(base.get("snapshots") or [], key=lambda snapshot: snapshot["sequence-number"])
    marks = [int(snapshot["summary"][MERGED_THROUGH]) for snapshot in snapshots]
    assert marks == sorted(marks), f"the watermark went down: {marks}"


def check_files(store: Store, metadata: Json) -> None:
    """Every file that a snapshot of the table refers to exists."""
    for snapshot in metadata.get("snapshots") or []:
        assert Path(_plain(snapshot["manifest-list"])).is_file(), f"{store.parts}: manifest list is gone: {snapshot}"
        manifests = Manifests(Storage(), metadata)
        missing = [path for path in _files(manifests, snapshot["manifest-list"]) if not Path(path).is_file()]
        assert not missing, f"{store.parts}: snapshot {snapshot['snapshot-id']} lacks {missing}"


def check_versions(base: Json, change: Json, versions: list[dict[str, Any]]) -> None:
    """Whatever pair of snapshots is still offered to readers, both stores have."""
    there = {
        side: {str(snapshot["snapshot-id"]) for snapshot in metadata.get("snapshots") or []}
        for side, metadata in (("base", base), ("change", change))
    }
    for version in versions:
        for side, ids in there.items():
            named = version[f"{side}_snapshot_id"]
            assert named is None or str(named) in ids, f"version {version} names a {side} snapshot that is gone"


def read_files(metadata: Json) -> None:
    """Every data and delete file of every snapshot can be read from its first to its last byte."""
    manifests, seen = Manifests(Storage(), metadata), set[str]()
    for snapshot in metadata.get("snapshots") or []:
        seen |= {file.location for file in manifests.live_files({"manifest-list": snapshot["manifest-list"]})}
    for location in sorted(seen):
        if location.endswith(".parquet"):
            pq.read_table(_plain(location), partitioning=None)
        else:
            Path(_plain(location)).read_bytes()


_known: dict[str, frozenset[str]] = {}


def _files(manifests: Manifests, manifest_list: str) -> frozenset[str]:
    """Manifest lists never change, so each is read once."""
    if manifest_list not in _known:
        lines = manifests.of_snapshot({"manifest-list": manifest_list})
        live = manifests.live_files({"manifest-list": manifest_list})
        paths = [line["manifest_path"] for line in lines] + [file.location for file in live]
        _known[manifest_list] = frozenset(_plain(path) for path in paths)
    return _known[manifest_list]


@cache
def _plain(location: str) -> str:
    return location.removeprefix("file://").removeprefix("file:")
