"""The settings that need the privilege to write: those that can delete rows, files or history, or change rows.

A maintainer decides when and how a table's files are rewritten; its content stays as its writers left it. A setting
that can change the content needs the privilege to write, to set and to remove it. A removal counts too, because the
wider value or the default may keep less. Each setting is in one of the two lists; a test checks that.
"""

from __future__ import annotations

from collections.abc import Iterable

from catalog.policy.policy import RETENTION

FOR_WRITERS = frozenset(
    {
        # These delete rows by age.
        *("firn.ttl.field", "firn.ttl.max-age", "firn.ttl.whole-partitions", "firn.ttl.schedule"),
        # It hides rows by age.
        "firn.ttl.at-read",
        # These expire snapshots, and the tags that would keep them.
        *("firn.expire.max-age", "firn.expire.min-snapshots", "firn.expire.max-snapshots", "firn.expire.schedule"),
        *("firn.tags.schedule", "firn.tags.name", "firn.tags.max-age"),
        # Expiry keeps what consumers of changes need, for this long.
        "firn.consumers.max-age",
        # The same for pipelines.
        "firn.pipeline.keep-inputs",
        # These delete unreferenced files, whose references may be missing by mistake.
        *("firn.orphans.min-age", "firn.orphans.schedule", "firn.orphans.quarantine"),
        # Without its tombstone, a late change restores a deleted row.
        "firn.tombstone.max-age",
        # These decide how Hive's changes affect rows and columns here, and the reverse.
        *("firn.hive.overwrite-wins", "firn.hive.overwrite-window", "firn.hive.keyed-sync", "firn.hive.subdirectories"),
        *("firn.hive.schema-conflict", "firn.hive.schema-push"),
        # These delete directories that a publish has replaced, and choose the location of published files.
        *("firn.hive.superseded-dir-grace", "firn.hive.publish.location"),
        # For a catalog: how long undrop is possible.
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
        *("firn.read.format-version", "firn.read.max-wait", "firn.read.on-timeout", "firn.read.keep"),
        *("firn.statistics.columns", "firn.statistics.schedule"),
        *("firn.hive.sync.interval", "firn.hive.sync.sweep", "firn.hive.publish.interval"),
    }
)


def need_write_privilege(keys: Iterable[str]) -> bool:
    """Whether setting or removing one of these properties needs the privilege to write."""
    return any(key in FOR_WRITERS for key in keys)
