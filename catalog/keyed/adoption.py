"""Decides which merges may run by adoption, without Spark (docs/protocols.md, rule 5.6)."""

from __future__ import annotations

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.keyed.image import find_same_spec
from catalog.keyed.spec import KeyedTable
from firn.protocol.tasks.merge import AdoptionTask, MergeMode, RewriteRule

MIB = 2**20
MOST_PENDING_BYTES = 64 * MIB
"""More pending changes than this are merged by Spark: the builder has their keys and one change file in memory."""
MOST_KEY_BYTES = 1024 * MIB
"""Of the key columns of base, as its files store them. They are read once, which takes seconds of one CPU."""
MOST_REWRITTEN_BYTES = 256 * MIB
"""Of base's files that one merge writes again without Spark, which takes about 15 seconds of one CPU."""
SMALL_FILE_BYTES = MIB
"""A file up to this size is written again with the changes of its partition. That takes less than the reads of one
more small file and its share of a compaction in Spark (docs/performance.md).
"""
_FIRST_WITH_DELETES = 2
_CODECS = {"zstd": "zstd", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "uncompressed": "none"}
_DICTIONARY_BYTES = 2 * MIB
"""The default of Iceberg."""
_BLOOM_FILTERS = "write.parquet.bloom-filter-enabled.column."
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


def build_rewrite_rule(base: Json, *, large_share: float, target_bytes: int) -> RewriteRule | None:
    """How an adoption writes files of base again; None if base's files have a property that only Spark gives them:
    a sort order, Bloom filters or another codec.
    """
    properties = base.get("properties") or {}
    codec = _CODECS.get(properties.get("write.parquet.compression-codec", "zstd").lower())
    level = properties.get("write.parquet.compression-level")
    dictionary = properties.get("write.parquet.dict-size-bytes", str(_DICTIONARY_BYTES))
    has_filters = any(name.startswith(_BLOOM_FILTERS) and value == "true" for name, value in properties.items())
    if codec is None or has_filters or base.get("default-sort-order-id", 0) != 0:
        return None
    if not dictionary.isdecimal() or not (level or "0").isdecimal():
        return None
    return RewriteRule(
        large_share=large_share,
        small_bytes=SMALL_FILE_BYTES,
        most_bytes=MOST_REWRITTEN_BYTES,
        target_bytes=target_bytes,
        codec=codec,
        level=int(level) if level and codec in ("zstd", "gzip") else None,
        dictionary_bytes=int(dictionary),
    )


def build_adoption_task(base: Json, otherwise: MergeMode | None, rewriting: RewriteRule | None = None) -> AdoptionTask:
    """How to merge by adoption; `otherwise` is the mode if that turns out to be impossible."""
    return AdoptionTask(
        directory=find_data_directory(base),
        format_version=base["format-version"],
        most_key_bytes=MOST_KEY_BYTES,
        otherwise=otherwise,
        rewriting=rewriting,
    )


def find_data_directory(base: Json) -> str:
    """The directory for base's own data files."""
    directory: str = (base.get("properties") or {}).get("write.data.path") or f"{base['location'].rstrip('/')}/data"
    return directory.rstrip("/")
