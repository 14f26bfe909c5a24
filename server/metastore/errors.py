"""Classification of failed thrift calls: refused, not sent, or unknown outcome."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hive_metastore.ttypes import (
    AlreadyExistsException,
    ConfigValSecurityException,
    InvalidInputException,
    InvalidObjectException,
    InvalidOperationException,
    InvalidPartitionException,
    MetaException,
    NoSuchObjectException,
    UnknownDBException,
    UnknownPartitionException,
    UnknownTableException,
)
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TTransport import TTransportException

from catalog.errors import AlreadyExists, CatalogError, CommitUnknown, Invalid, NotFound, Unavailable

# The answer was lost or malformed.
LOST = (TTransportException, TProtocolException, OSError)

_MISSING = (NoSuchObjectException, UnknownDBException, UnknownTableException, UnknownPartitionException)
_INVALID = (
    InvalidObjectException,
    InvalidOperationException,
    InvalidPartitionException,
    InvalidInputException,
    ConfigValSecurityException,
)
# An internal error of the metastore, which may have changed its database before a failed write.
_INTERNAL = (MetaException, TApplicationException)


@contextmanager
def translate_read_errors(request: str) -> Iterator[None]:
    """Translate the errors of a read; `request` names it in messages."""
    try:
        yield
    except LOST as error:
        raise Unavailable(f"the Hive metastore did not answer {request}: {get_message(error)}") from error
    except TException as error:
        raise _find_refusal(request, error) or Unavailable(
            f"the Hive metastore failed at {request}: {get_message(error)}"
        ) from error


@contextmanager
def translate_write_errors(request: str) -> Iterator[None]:
    """Translate the errors of a write: unless the metastore refused it explicitly, its outcome is unknown."""
    try:
        yield
    except LOST as error:
        raise CommitUnknown(f"the Hive metastore did not answer {request}: {get_message(error)}") from error
    except TException as error:
        raise _find_refusal(request, error) or CommitUnknown(
            f"the Hive metastore failed at {request}: {get_message(error)}"
        ) from error


def get_message(error: BaseException) -> str:
    """Get the metastore's message without the name of its Java class."""
    text = str(getattr(error, "message", None) or error) or type(error).__name__
    return text.rpartition("Exception: ")[2] or text


def _find_refusal(request: str, error: TException) -> CatalogError | None:
    if isinstance(error, _MISSING):
        return NotFound(f"{request}: {get_message(error)}")
    if isinstance(error, AlreadyExistsException):
        return AlreadyExists(f"{request}: {get_message(error)}")
    if isinstance(error, _INVALID):
        return Invalid(f"the Hive metastore refuses {request}: {get_message(error)}")
    if isinstance(error, TApplicationException) and error.type == TApplicationException.UNKNOWN_METHOD:
        return Invalid(f"this Hive metastore is too old for {request}: {get_message(error)}")
    return None
