"""What a failed thrift call means: refused, not sent, or nobody knows."""

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

# An answer was lost, or what came back is not one.
LOST = (TTransportException, TProtocolException, OSError)

_MISSING = (NoSuchObjectException, UnknownDBException, UnknownTableException, UnknownPartitionException)
_INVALID = (
    InvalidObjectException,
    InvalidOperationException,
    InvalidPartitionException,
    InvalidInputException,
    ConfigValSecurityException,
)
# The metastore failed inside; on a write its database may have been changed before it did.
_INTERNAL = (MetaException, TApplicationException)


@contextmanager
def asking(what: str) -> Iterator[None]:
    """A read: whatever went wrong, nothing was changed."""
    try:
        yield
    except LOST as error:
        raise Unavailable(f"the Hive metastore did not answer {what}: {said(error)}") from error
    except TException as error:
        raise _refusal(what, error) or Unavailable(f"the Hive metastore failed at {what}: {said(error)}") from error


@contextmanager
def changing(what: str) -> Iterator[None]:
    """A write on an open connection: unless the metastore refused it in so many words, it may have been made."""
    try:
        yield
    except LOST as error:
        raise CommitUnknown(f"the Hive metastore did not answer {what}: {said(error)}") from error
    except TException as error:
        raise _refusal(what, error) or CommitUnknown(f"the Hive metastore failed at {what}: {said(error)}") from error


def said(error: BaseException) -> str:
    """The metastore's own words, without the name of its Java class."""
    text = str(getattr(error, "message", None) or error) or type(error).__name__
    return text.rpartition("Exception: ")[2] or text


def _refusal(what: str, error: TException) -> CatalogError | None:
    if isinstance(error, _MISSING):
        return NotFound(f"{what}: {said(error)}")
    if isinstance(error, AlreadyExistsException):
        return AlreadyExists(f"{what}: {said(error)}")
    if isinstance(error, _INVALID):
        return Invalid(f"the Hive metastore refuses {what}: {said(error)}")
    if isinstance(error, TApplicationException) and error.type == TApplicationException.UNKNOWN_METHOD:
        return Invalid(f"this Hive metastore is too old for {what}: {said(error)}")
    return None
