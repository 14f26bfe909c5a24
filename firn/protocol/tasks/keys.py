"""The task of a job that counts keys."""

from __future__ import annotations

from firn.protocol.base import Task


class KeysTask(Task):
    """The base store and the snapshot whose keys a job counts. With `resolves` it also removes duplicate rows.

    With `by_time`, the modification times of files decide which of two rows of one commit is newer. The SQL reads views
    that `optimizer.jobs.check_keys` names.
    """

    base: list[str]
    snapshot_id: int | None
    primary_key: list[str]
    resolves: bool
    by_time: bool
    sql: dict[str, str]
