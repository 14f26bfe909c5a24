"""Files as manifests list them, and the task of a rewrite."""

from __future__ import annotations

from typing import Any

from catalog.files.manifest_entries import ManifestEntry

MIB = 2**20
REWRITE = {
    "target_file_size": 128 * MIB,
    "small_file_size": 96 * MIB,
    "min_files": 5,
    "max_delete_ratio": 0.2,
    "max_job_bytes": 2**34,
}


def a_file(partition: Any = "a", *, size: int = MIB, content: int = 0, **more: Any) -> ManifestEntry:
    fields: dict[str, Any] = {"spec_id": 0, "sequence_number": 5, "record_count": 100, "location": "f"} | more
    return ManifestEntry(content=content, size=size, partition=(partition,), **fields)
