"""The task of a job that looks for orphans, and the server's answers to its proposals."""

from __future__ import annotations

from firn.protocol.base import Message, Task


class ListedTable(Message):
    """A table, or a store of a keyed table, and the directory that the job lists."""

    parts: list[str]
    location: str


class OrphansTask(Task):
    """One search for orphans. The job may propose files that were last changed before `before_ms`."""

    tables: list[ListedTable]
    images: str | None = None
    """The directory of a keyed table's images, which the job lists too: some writers put their delete files there."""
    published: str | None
    """The publish directory of a linked table, which the job lists too."""
    unrepresentable: str | None
    """Why the job does not list the publish directory."""
    before_ms: int
    dry_run: bool
    requested: bool


class QuarantinedFile(Message):
    """A file that the server moved to quarantine; in a dry run, one that it would move."""

    path: str
    bytes: int


class QuarantinedFiles(Message):
    """The server's answer to one proposal. `kept` counts the other files by reason."""

    quarantined: list[QuarantinedFile]
    kept: dict[str, int]


class Ended(Message):
    """The files that one request deleted from quarantine, and the cursor of the next request."""

    deleted_files: int
    deleted_bytes: int
    next_cursor: str | None
