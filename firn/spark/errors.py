"""Errors of writes, and the classes of Java exceptions that tell them apart.

WriteError               nothing of this batch is in the table
├── NotKeyed             there is no keyed table of this name
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
"""Iceberg's exceptions that prove that a commit was not applied."""
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
    """There is no keyed table of this name."""


class RowsRefused(WriteError):
    """The rows do not fit the table."""


class CommitRefused(WriteError):
    """The catalog did not take the commit."""


class WriteUnknown(Exception):
    """The batch may or may not be in the table; writing it again under the same batch name is safe."""


class NotPublished(Exception):
    """The batch is in the table, but not published to Hive; writing it again under its name tries to publish again."""


class AppendRefused(Exception):
    """The catalog did not take a commit that this process has sent without Java."""


class AppendUnknown(Exception):
    """Nobody knows whether a commit that this process has sent without Java was applied."""


def java_causes(error: BaseException) -> list[tuple[str, str]]:
    """List class and message of a Java exception and of all its causes, outermost first; empty for Python's errors."""
    java = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    causes: list[tuple[str, str]] = []
    while java is not None and len(causes) < 20:
        causes.append((java.getClass().getName(), java.getMessage() or ""))
        java = java.getCause()
    return causes


def is_refusal(error: BaseException) -> bool:
    """Whether this failure of a write proves that its commit was not applied."""
    if isinstance(error, AnalysisException | AppendRefused):
        return True  # of the former, Spark did not even start
    classes = {name for name, _ in java_causes(error)}
    return bool(classes & REFUSALS) and not classes & UNCERTAIN


def is_uncertain(error: BaseException) -> bool:
    """Whether the commit of this failed write may have been applied, because its answer is missing.

    That includes a JVM that has ended or does not answer.
    """
    if isinstance(error, Py4JNetworkError | ConnectionError | AppendUnknown):
        return True
    return any(name in UNCERTAIN for name, _ in java_causes(error))


def reason(error: BaseException) -> str:
    """The first line of the innermost message of a failure, without the Java stack.

    If Python failed in a worker of Spark, it is the last line of Python's traceback.
    """
    causes = java_causes(error)
    messages = [message for _, message in causes] + [str(error)]
    if traceback_text := next((text for text in messages if _TRACEBACK in text), None):
        return _last_python_message(traceback_text)
    text = causes[-1][1] if causes else str(error)
    return (text.strip() or type(error).__name__).splitlines()[0]


def _last_python_message(text: str) -> str:
    """The last line of the last traceback, without the name of the error's class."""
    stack = text.rpartition(_TRACEBACK)[2].strip().partition("\n\n")[0]
    line = stack.splitlines()[-1]
    return line.partition(": ")[2] or line
