"""What an optimizer can do to a table, one module per kind of job."""

from __future__ import annotations

from collections.abc import Mapping

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
from optimizer.worker import RunJob

JOBS: Mapping[str, RunJob] = {
    "merge": merge.run,
    "clean": clean.run,
    "rewrite": rewrite.run,
    "compact": compact.run,
    "deletes": deletes.run,
    "manifests": manifests.run,
    "expire": expire.run,
    "orphans": orphans.run,
    "ttl": ttl.run,
    "tags": tags.run,
    "statistics": statistics.run,
    "keys": keys.run,
    "sync": sync.run,
    "publish": publish.run,
    "convert": convert.run,
}
