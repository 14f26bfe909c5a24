"""Jobs: what they do, where they stand, and what they come to."""

from __future__ import annotations

from enum import StrEnum


class JobKind(StrEnum):
    """What a job does to its table."""

    MERGE = "merge"  # change into base, then clean
    REWRITE = "rewrite"  # pack, sort or z-order the files of base or of a plain table
    COMPACT = "compact"  # pack the small files of a change store
    REWRITE_DELETES = "rewrite-deletes"  # pack delete files, and drop those that delete nothing any more
    REWRITE_MANIFESTS = "rewrite-manifests"  # write the manifests of a table anew, fewer and by partition
    CLEAN = "clean"  # drop merged files from the change store's current snapshot
    EXPIRE = "expire"  # remove old snapshots and the files only they needed
    REMOVE_ORPHANS = "remove-orphans"  # set aside, and later delete, files that nothing refers to
    TTL = "ttl"  # delete rows that are too old
    STATISTICS = "statistics"  # count distinct values for query planning
    TAGS = "tags"  # tag the head, and drop such tags when their time has come
    KEYS = "keys"  # count keys that occur more than once, and make them one row each if told so
    SYNC = "sync"  # bring what Hive-side writers did to a keyed table
    PUBLISH = "publish"  # give Hive what was merged
    CONVERT = "convert"  # fill a new table with the rows of a Hive table, which Spark reads and writes anew


class JobOutcome(StrEnum):
    """What a job that has succeeded came to."""

    COMMITTED = "committed"
    NOTHING_TO_DO = "nothing to do"  # it has looked, and changed nothing
    DONE = "done"  # its work is no commit, or not only


class JobStatus(StrEnum):
    """Where a job stands."""

    PENDING = "pending"  # planned, nobody owns it
    RUNNING = "running"  # one optimizer holds the lease
    COMMITTING = "committing"  # it said so before asking the table to commit
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # known not to have committed
    UNKNOWN = "unknown"  # its lease ended while committing: it may have committed, the record will tell
    CANCELED = "canceled"

    @property
    def is_active(self) -> bool:
        """Whether the job keeps its table from getting another one."""
        return not self.is_final

    @property
    def is_final(self) -> bool:
        """Whether nothing more will come of it. Of an unknown one the server will find out."""
        return self in (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELED)

    @property
    def is_leased(self) -> bool:
        """Whether an optimizer works on it."""
        return self in (JobStatus.RUNNING, JobStatus.COMMITTING)
