"""What an optimizer can do to a table, one module per kind of job."""

from __future__ import annotations

from collections.abc import Mapping

from optimizer.job import OptimizerJob
from optimizer.jobs import (
    clean,
    compact,
    convert,
    deletes,
    expire,
    keys,
    manifests,
    merge,
    orphans,
    publish,
    rewrite,
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
    "deletes": deletes.JOB,
    "manifests": manifests.JOB,
    "expire": expire.JOB,
    "orphans": orphans.JOB,
    "ttl": ttl.JOB,
    "tags": tags.JOB,
    "statistics": statistics.JOB,
    "keys": keys.JOB,
    "sync": sync.JOB,
    "publish": publish.JOB,
    "convert": convert.JOB,
}
"""By kind; a kind that is missing here is not run. A new kind is a module beside this one and a line here."""
