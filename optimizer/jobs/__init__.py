"""What an optimizer can do to a table, one module per kind of job."""

from __future__ import annotations

from collections.abc import Mapping

from optimizer.job import OptimizerJob
from optimizer.jobs import (
    check_keys,
    clean,
    compact,
    convert,
    expire_snapshots,
    merge,
    publish,
    remove_orphans,
    rewrite,
    rewrite_deletes,
    rewrite_manifests,
    statistics,
    sync,
    tags,
    ttl,
)

JOBS: Mapping[str, OptimizerJob] = {
    "merge": merge.JOB,
    "clean": clean.JOB,
    "rewrite": rewrite.JOB,
    "compact": compact.JOB,
    "rewrite-deletes": rewrite_deletes.JOB,
    "rewrite-manifests": rewrite_manifests.JOB,
    "expire": expire_snapshots.JOB,
    "remove-orphans": remove_orphans.JOB,
    "ttl": ttl.JOB,
    "tags": tags.JOB,
    "statistics": statistics.JOB,
    "keys": check_keys.JOB,
    "sync": sync.JOB,
    "publish": publish.JOB,
    "convert": convert.JOB,
}
"""By kind; a kind that is missing here is not run. A new kind is a module beside this one and a line here."""
