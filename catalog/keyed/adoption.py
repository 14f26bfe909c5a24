"""Decides which merges may run by adoption, without Spark (docs/protocols.md, rule 5.6)."""

from __future__ import annotations

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.keyed.image import find_same_spec
from catalog.keyed.spec import KeyedTable
from firn.protocol.tasks.merge import AdoptionTask, MergeMode

MIB = 2**20
MOST_PENDING_BYTES = 64 * MIB
"""More pending changes than this are merged by Spark: the builder has their keys and one change file in memory."""
MOST_KEY_BYTES = 1024 * MIB
"""Of the key columns of base, as its files store them. They are read once, which takes seconds of one CPU."""
_FIRST_WITH_DELETES = 2
_MERGE_ON_READ = "merge-on-read"


def find_obstacle(keyed: KeyedTable, base: Json, change: Json) -> str | None:
    """Why the pending changes cannot be merged by adoption; None if they can, as far as the metadata says."""
    properties = base.get("properties") or {}
    if base["format-version"] < _FIRST_WITH_DELETES:
        return "base has format version 1, which has no deletes"
    if properties.get("write.format.default", "parquet").lower() != "parquet":
        return f"base's files are {properties['write.format.default']}, and adoption writes Parquet"
    if properties.get("write.merge.mode", _MERGE_ON_READ) != _MERGE_ON_READ:
        return f"write.merge.mode of base is {properties['write.merge.mode']}, and adoption writes deletes"
    if keyed.pending_bytes > MOST_PENDING_BYTES:
        return f"{keyed.pending_bytes:,} bytes are pending, and adoption takes {MOST_PENDING_BYTES:,} at most"
    default = change.get("default-spec-id", 0)
    spec = next(spec for spec in change["partition-specs"] if spec["spec-id"] == default)
    try:
        find_same_spec(base, spec)
    except Invalid:
        return "base has no partition spec like that of the change store"
    return None


def build_adoption_task(base: Json, otherwise: MergeMode | None) -> AdoptionTask:
    """How to merge by adoption; `otherwise` is the mode if that turns out to be impossible."""
    return AdoptionTask(
        directory=find_data_directory(base),
        format_version=base["format-version"],
        most_key_bytes=MOST_KEY_BYTES,
        otherwise=otherwise,
    )


def find_data_directory(base: Json) -> str:
    """The directory for base's own data files."""
    directory: str = (base.get("properties") or {}).get("write.data.path") or f"{base['location'].rstrip('/')}/data"
    return directory.rstrip("/")
