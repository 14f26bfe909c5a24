"""The task of a job that looks for orphans, and the server's answers to its proposals."""

from __future__ import annotations

from firn.protocol.base import Message, Task


class ListedTable(Message):
    """A table and the place that is listed: a plain one, or one of a keyed table's stores."""

    parts: list[str]
    location: str


class OrphansTask(Task):
    """Files changed last before that moment may be proposed."""

    tables: list[ListedTable]
    published: str | None
    """Where a linked table gives its rows to Hive: that place is listed, too."""
    unrepresentable: str | None
    """Why it is not."""
    before_ms: int
    dry_run: bool
    requested: bool


class QuarantinedFile(Message):
    """A file that the server took, or in a dry run would."""

    path: str
    bytes: int


class QuarantinedFiles(Message):
    """The server's judgement of one proposal."""

    quarantined: list[QuarantinedFile]
    kept: dict[str, int]


class Ended(Message):
    """What has left the quarantine for good with one request, and where the next goes on."""

    deleted_files: int
    deleted_bytes: int
    next_cursor: str | None
