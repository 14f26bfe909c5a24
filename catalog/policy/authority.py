"""Which settings take more than maintaining: those by which rows, files or history go, or rows become others.

Whoever maintains a table decides when and how its files are written anew; what is in it stays as its writers left it.
A setting that can change that takes the privilege to write where it holds, set or removed: without it a wider value or
the default counts, which may keep less. Each setting is in one of the two lists, a test sees to it.
"""

from __future__ import annotations

from collections.abc import Iterable

from catalog.policy.policy import RETENTION

FOR_WRITERS = frozenset(
    {
        # Rows are deleted by age.
        *("firn.ttl.field", "firn.ttl.max-age", "firn.ttl.whole-partitions", "firn.ttl.schedule"),
        # Snapshots, and the tags that would hold them, are given up.
        *("firn.expire.max-age", "firn.expire.min-snapshots", "firn.expire.schedule"),
        *("firn.tags.schedule", "firn.tags.name", "firn.tags.max-age"),
        # Files are deleted that nothing refers to, which may be because of a mistake.
        *("firn.orphans.min-age", "firn.orphans.schedule", "firn.orphans.quarantine"),
        # A late change finds no tombstone any more, and brings a deleted row back.
        "firn.tombstone.max-age",
        # What is done in Hive decides about rows and columns here, and the other way round.
        *("firn.hive.overwrite-wins", "firn.hive.overwrite-window", "firn.hive.keyed-sync", "firn.hive.subdirectories"),
        *("firn.hive.schema-conflict", "firn.hive.schema-push"),
        # Directories that a publish has left are deleted after this time; where published files lie.
        *("firn.hive.retired-dir-grace", "firn.hive.publish.location"),
        # Of a catalog: how long what was dropped can be brought back.
        RETENTION,
    }
)
FOR_MAINTAINERS = frozenset(
    {
        *("firn.optimize.enabled", "firn.optimize.group", "firn.optimize.priority", "firn.optimize.quota"),
        *("firn.optimize.window", "firn.optimize.not-during", "firn.optimize.time-zone"),
        *("firn.merge.mode", "firn.merge.trigger", "firn.merge.schedule", "firn.merge.max-job-rows"),
        *("firn.merge.max-pending-rows", "firn.merge.max-pending-bytes", "firn.merge.max-pending-commits"),
        "firn.merge.max-pending-age",
        *("firn.rewrite.target-file-size", "firn.rewrite.small-file-size", "firn.rewrite.min-files"),
        *("firn.rewrite.max-delete-ratio", "firn.rewrite.strategy", "firn.rewrite.sort-order", "firn.rewrite.filter"),
        *("firn.rewrite.max-job-size", "firn.rewrite.schedule"),
        *("firn.compact.min-files", "firn.compact.target-file-size"),
        *("firn.deletes.min-files", "firn.manifests.max-count"),
        *("firn.statistics.columns", "firn.statistics.schedule"),
        *("firn.hive.sync.interval", "firn.hive.sync.sweep", "firn.hive.publish.interval"),
    }
)


def need_write_privilege(keys: Iterable[str]) -> bool:
    """Whether to set or remove one of these properties takes the privilege to write."""
    return any(key in FOR_WRITERS for key in keys)
