"""What can go wrong when rows are written, in words for whoever wrote them; and Java's side of it, by class.

WriteError               nothing of this batch is in the table
├── NotKeyed             the name stands for no keyed table
├── RowsRefused          the rows do not fit the table: columns, types, nulls, keys that appear twice
└── CommitRefused        the catalog did not take the commit
WriteUnknown             outside the tree: the batch may be in the table; writing it again under its name is safe
NotPublished             outside the tree: the batch is in the table; Hive's readers do not see it yet
"""

from __future__ import annotations

from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import AnalysisException

_PACKAGE = "org.apache.iceberg.exceptions."
REFUSALS = frozenset(
    _PACKAGE + name
    for name in (
        "AlreadyExistsException",
        "BadRequestException",
        "CommitFailedException",
        "ForbiddenException",
        "NoSuchTableException",
        "NotAuthorizedException",
        "UnprocessableEntityException",
        "ValidationException",
    )
)
"""Exceptions of Iceberg's that say for certain that a commit was not applied."""
UNCERTAIN = frozenset(
    _PACKAGE + name
    for name in (
        "CommitStateUnknownException",
        "RESTException",
        "ServiceFailureException",
        "ServiceUnavailableException",
    )
)
"""Exceptions after which a commit may have been applied."""
_TRACEBACK = "Traceback (most recent call last):"
BAD_REQUEST = _PACKAGE + "BadRequestException"


class WriteError(Exception):
    """Nothing of this batch is in the table."""


class NotKeyed(WriteError):
    """The name stands for no keyed table."""


class RowsRefused(WriteError):
    """The rows do not fit the table."""


class CommitRefused(WriteError):
    """The catalog did not take the commit."""


class WriteUnknown(Exception):
    """The batch may or may not be in the table; writing it again under the same batch name is safe."""


class NotPublished(Exception):
    """The batch is in the table, and was not given to Hive yet; writing it again under its name tries that again."""


def java_causes(error: BaseException) -> list[tuple[str, str]]:
    """Class and message of a Java exception and of all its causes, outermost first; empty for Python's own errors."""
    java = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    causes: list[tuple[str, str]] = []
    while java is not None and len(causes) < 20:
        causes.append((java.getClass().getName(), java.getMessage() or ""))
        java = java.getCause()
    return causes


def is_refusal(error: BaseException) -> bool:
    """Whether this failure of a write says for certain that its commit was not applied."""
    if isinstance(error, AnalysisException):
        return True  # Spark did not even start
    classes = {name for name, _ in java_causes(error)}
    return bool(classes & REFUSALS) and not classes & UNCERTAIN


def is_uncertain(error: BaseException) -> bool:
    """Whether this failure of a write is that of its commit's answer: the commit may have been applied.

    So it may where the JVM is gone, or does not answer: whatever it was doing, nobody has told how it ended.
    """
    if isinstance(error, Py4JNetworkError | ConnectionError):
        return True
    return any(name in UNCERTAIN for name, _ in java_causes(error))


def reason(error: BaseException) -> str:
    """The innermost message of a failure, first line only: what people need of a Java stack.

    Where Python failed in one of Spark's workers it is what Python said last.
    """
    causes = java_causes(error)
    said = [message for _, message in causes] + [str(error)]
    if found := next((text for text in said if _TRACEBACK in text), None):
        return _said_by_python(found)
    text = causes[-1][1] if causes else str(error)
    return (text.strip() or type(error).__name__).splitlines()[0]


def _said_by_python(text: str) -> str:
    """The last line of the last traceback, without the name of the error's class."""
    stack = text.rpartition(_TRACEBACK)[2].strip().partition("\n\n")[0]
    line = stack.splitlines()[-1]
    return line.partition(": ")[2] or line
