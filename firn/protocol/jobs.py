"""Jobs: their kinds, states and outcomes."""

from __future__ import annotations

from enum import StrEnum

_MODULES = {"expire": "expire_snapshots", "keys": "check_keys"}
"""The kinds whose modules have a longer name than the kind."""


class JobKind(StrEnum):
    """The kinds of maintenance jobs, the most urgent first: the planner takes the first kind that is due."""

    MERGE = "merge"  # merge the change store into base, then clean
    CLEAN = "clean"  # drop merged files from the change store's current snapshot
    REWRITE = "rewrite"  # pack, sort or z-order the files of base or of a plain table
    COMPACT = "compact"  # pack the small files of a change store
    REWRITE_DELETES = "rewrite-deletes"  # pack delete files, and drop those that delete nothing any more
    REWRITE_MANIFESTS = "rewrite-manifests"  # rewrite the manifests of a table: fewer, and by partition
    EXPIRE = "expire"  # remove old snapshots and the files that only they need
    TTL = "ttl"  # delete rows that are too old
    REMOVE_ORPHANS = "remove-orphans"  # quarantine, and later delete, files that nothing refers to
    STATISTICS = "statistics"  # count distinct values for query planning
    TAGS = "tags"  # tag the head, and drop scheduled tags when they expire
    KEYS = "keys"  # count duplicate keys and, on request, keep one row of each
    IMAGE = "image"  # merge a keyed table for its readers, if that is too much for the server
    SYNC = "sync"  # apply the changes of Hive-side writers to a keyed table
    PUBLISH = "publish"  # write merged rows for Hive
    CONVERT = "convert"  # fill a new table with the rows of a Hive table, which Spark reads and rewrites
    PIPELINE = "pipeline"  # compute a table of a pipeline from what has changed in its inputs

    @property
    def module(self) -> str:
        """The name of the kind's module in `catalog.maintenance` and in `optimizer.jobs`."""
        return _MODULES.get(self, self.replace("-", "_"))


class JobOutcome(StrEnum):
    """The outcome of a job that succeeded."""

    COMMITTED = "committed"
    NOTHING_TO_DO = "nothing to do"  # there was nothing to change
    DONE = "done"  # its work is not only a commit


class JobStatus(StrEnum):
    """The state of a job."""

    PENDING = "pending"  # it waits for an optimizer
    RUNNING = "running"  # one optimizer holds the lease
    COMMITTING = "committing"  # its optimizer announced a commit
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # it certainly has not committed
    UNKNOWN = "unknown"  # its lease ended during a commit: the server finds out whether it committed
    CANCELED = "canceled"

    @property
    def is_active(self) -> bool:
        """Whether the job keeps other jobs from its table."""
        return not self.is_final

    @property
    def is_final(self) -> bool:
        """Whether the state never changes again. The server resolves the state `unknown`."""
        return self in (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELED)

    @property
    def is_leased(self) -> bool:
        """Whether an optimizer holds the lease."""
        return self in (JobStatus.RUNNING, JobStatus.COMMITTING)
