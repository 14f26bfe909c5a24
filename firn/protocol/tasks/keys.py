"""The task of a job that counts keys."""

from __future__ import annotations

from firn.protocol.base import Task


class KeysTask(Task):
    """Whose keys to count, as of which snapshot of base; one that `resolves` also makes them one row each.

    `by_time` says that the times of files tell which of one commit is newer. The SQL reads the views that are named in
    optimizer.jobs.check_keys.
    """

    base: list[str]
    snapshot_id: int | None
    primary_key: list[str]
    resolves: bool
    by_time: bool
    sql: dict[str, str]
