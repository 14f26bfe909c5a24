"""Explains failures to people: the file, the cause, and what happens next.

Spark and Iceberg fail with Java exceptions whose texts name Java's own calls. This module recognizes those that a user
can fix by the words of their causes. For others it shows the innermost cause. Stack traces go to the job's log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from firn.hdfs.errors import NO_DELEGATION
from firn.protocol.leases import Lease
from firn.spark.errors import java_causes, reason

TRACE_LINES = 60
"""Of a stack trace, in a job's log."""
_LOCATION = r"(?P<file>(?:[a-z][a-z0-9+.-]*:)?/[^\n]*?)"
_GONE = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        rf"Encountered error while reading file {_LOCATION}\. ",
        rf"Failed to open (?:input stream for file|Parquet file|file): {_LOCATION}$",
        rf"(?:File|file) {_LOCATION} does not exist",
        rf"File does not exist: {_LOCATION}$",
        rf"Location does not exist: {_LOCATION}$",
    )
)
_IS_GONE = re.compile(
    r"does not exist|FileNotFoundException|NoSuchKey|NoSuchFileException|FILE_NOT_EXIST|NotFoundException"
)
_IS_DENIED = re.compile(
    r"Access ?Denied|AccessDeniedException|AccessControlException|Permission denied|Status Code: 403|Forbidden"
)
_NO_KEYS = re.compile(r"Unable to load credentials from any of the providers")
_ANY_FILE = re.compile(r"(?P<file>(?:[a-z][a-z0-9+.-]*:)?/[^\s,;'\"]+\.(?:parquet|orc|avro|puffin|json|metadata))")
_IS_ENDED_TOKEN = re.compile(
    r"SecretManager\$InvalidToken|HDFS_DELEGATION_TOKEN.*(?:is expired|can't be found in cache)"
)
_IS_FULL = re.compile(r"No space left on device|Disk quota exceeded")
IS_OUT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|Java heap space|GC overhead limit|UNABLE_TO_ACQUIRE_MEMORY|POINTER_ARRAY_OUT_OF_MEMORY|"
    r"memory to build hash (?:relation|map)|exceeding .*memory limits|exited with code (?:52|137)\b"
)
"""What Java, Spark and cluster managers say when memory does not suffice."""
_IS_TOO_LARGE_FOR_DRIVER = re.compile(
    r"bigger than spark\.driver\.maxResultSize|Not enough memory to build and broadcast|Cannot broadcast the table"
)
_PARTITION = re.compile(r"/([^/=]+=[^/]*)(?=/)")


@dataclass(frozen=True, slots=True)
class _Failure:
    """The texts of a failure, outermost first, and the job that it ended."""

    texts: list[str]
    lease: Lease

    def says(self, pattern: re.Pattern[str]) -> bool:
        return any(pattern.search(text) for text in self.texts)

    def file(self, *patterns: re.Pattern[str]) -> str | None:
        """Find the file that a failure names: the first match of the patterns, from the innermost text."""
        for text in reversed(self.texts):
            for pattern in patterns:
                if match := pattern.search(text):
                    return match["file"].strip()
        return None


def explain_failure(error: BaseException, lease: Lease) -> str:
    """Build one message for the user: what happened, to which file, and what comes next."""
    causes = java_causes(error)
    if not causes and not isinstance(error, Py4JJavaError | PySparkException):
        return str(error) or type(error).__name__
    failure = _Failure([str(error), *(f"{name}: {message}" for name, message in causes)], lease)
    explanation = next((text for explain in _KINDS if (text := explain(failure)) is not None), None)
    return explanation or reason(error)


def read_java_trace(error: BaseException) -> list[str]:
    """The Java stack trace of a failure, cut to a bounded number of lines; empty for Python's own errors."""
    if not java_causes(error):
        return []
    lines = [line.rstrip() for line in _trace_text(error).splitlines() if line.strip()]
    more = len(lines) - TRACE_LINES
    return lines if more <= 0 else [*lines[:TRACE_LINES], f"… {more} more lines are in the optimizer's log"]


def _trace_text(error: BaseException) -> str:
    if isinstance(error, Py4JJavaError):
        return str(error).partition("\n: ")[2] or str(error)
    trace: str | None = getattr(error, "_stackTrace", None)
    return trace or str(error)


def _explain_lost_file(failure: _Failure) -> str | None:
    file = failure.file(*_GONE)
    if file is None or not failure.says(_IS_GONE):
        return None
    kind, hive = failure.lease.kind, failure.lease.hive_table
    if hive is None:
        return (
            f"the file {file} is gone: something other than Firn has deleted or moved it, and {failure.lease.table} "
            "still names it. Put it back, or roll the table back to a snapshot without it; until then this job fails"
        )
    partitions = "/".join(_partitions_of(file))
    where = f"partition {partitions}" if partitions else "the table's files"
    return (
        f"the file {file} is gone: Hive has overwritten, moved or dropped {where} of {hive} since the last sync. "
        f"The next sync takes that over, and the {kind} is planned again"
    )


def _partitions_of(file: str) -> Iterator[str]:
    """The partition values in Hive's directory names, such as `a=1`, `b=2`."""
    return (unquote(directory) for directory in _PARTITION.findall(file))


def _explain_denial(failure: _Failure) -> str | None:
    if failure.says(_NO_KEYS):
        return (
            "this optimizer has no credentials for the storage, and the catalog gave it none for this table. Set "
            "firn.storage.vending on the catalog, or give the optimizer keys of its own (docs/storage-credentials.md)"
        )
    if not failure.says(_IS_DENIED):
        return None
    file = failure.file(*_GONE, _ANY_FILE)
    target = "a file of the table" if file is None else f"the file {file}"
    return (
        f"the storage does not let this optimizer at {target}: {_innermost(failure)}. Check what its credentials "
        "open, and where the table's files lie (docs/storage-credentials.md)"
    )


def _explain_ended_token(failure: _Failure) -> str | None:
    return f"{_innermost(failure)}: {NO_DELEGATION}" if failure.says(_IS_ENDED_TOKEN) else None


def _explain_full_disk(failure: _Failure) -> str | None:
    if not failure.says(_IS_FULL):
        return None
    return (
        "a disk is full: make room on the storage, or where this optimizer's Spark keeps its own files; then ask again"
    )


def _explain_memory(failure: _Failure) -> str | None:
    if failure.says(_IS_TOO_LARGE_FOR_DRIVER):
        return (
            f"Spark's driver would have to hold more rows than it may ({_innermost(failure)}): leave out hints of the "
            f"query such as BROADCAST, or {_suggest_less(failure.lease)}"
        )
    return explain_memory(failure.lease) if failure.says(IS_OUT_OF_MEMORY) else None


def explain_memory(lease: Lease) -> str:
    """What people can do about a job for which Spark's memory is too small."""
    return (
        "Spark has run out of memory: start the optimizer with a larger --driver-memory or with fewer --slots, or "
        f"{_suggest_less(lease)}"
    )


def _suggest_less(lease: Lease) -> str:
    """How jobs of this kind take less at once."""
    if lease.kind == "pipeline":
        return (
            "let each run compute less: bound it by max_commits, cut a backfill into more chunks, and aggregate before "
            "you collect rows in one value (docs/pipelines.md, Runs that need too much memory)"
        )
    return "bound the job by firn.rewrite.max-job-size or firn.merge.max-job-rows"


def _innermost(failure: _Failure) -> str:
    return (failure.texts[-1].strip() or "no reason given").splitlines()[0].rpartition("Exception: ")[2]


_KINDS: tuple[Callable[[_Failure], str | None], ...] = (
    _explain_ended_token,
    _explain_full_disk,
    _explain_memory,
    _explain_lost_file,
    _explain_denial,
)
