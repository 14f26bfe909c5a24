"""The caller of the current request, for history and audit.

The API sets it once per request in a context variable, so that no service method has to pass it on. Background work has
no caller; its events name the job.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of a request, and the principal that it acts for."""

    engine: str | None = None
    """The name that the client gives itself, such as `Apache Iceberg 1.12.0`, without its build commit."""
    principal: str | None = None
    """The name of the principal; None while access control is off."""
    agent: str | None = None
    """The header `User-Agent`, the only header by which DuckDB identifies itself."""

    @classmethod
    def of(cls, client_version: str, agent: str = "") -> Caller:
        """The caller of a request with these values of `X-Client-Version` and `User-Agent`."""
        name = client_version.partition(" (")[0].strip()[:LONGEST_NAME]
        return cls(engine=name or None, agent=agent[:LONGEST_NAME] or None)


NOBODY = Caller()
caller: ContextVar[Caller] = ContextVar("caller", default=NOBODY)


@contextmanager
def working_as(engine: str) -> Iterator[None]:
    """Name background work as the engine of the events that it makes."""
    token = caller.set(Caller(engine=engine))
    try:
        yield
    finally:
        caller.reset(token)
