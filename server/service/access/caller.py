"""Who a request comes from, for the books.

It is said once, at the edge: every verb of every service would have to hand it on otherwise, and the one that forgot
would leave a commit by nobody. Background work has no caller; its events name the job.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class Caller:
    """What sent the request, and for whom."""

    engine: str | None = None
    """What the client calls itself, such as `Apache Iceberg 1.12.0`, without the commit it was built from."""
    principal: str | None = None
    """None while nobody is asked who they are."""
    agent: str | None = None
    """The header `User-Agent`: all that DuckDB says of itself."""

    @classmethod
    def of(cls, client_version: str, agent: str = "") -> Caller:
        """The sender of a request with these headers `X-Client-Version` and `User-Agent`."""
        name = client_version.partition(" (")[0].strip()[:LONGEST_NAME]
        return cls(engine=name or None, agent=agent[:LONGEST_NAME] or None)


NOBODY = Caller()
caller: ContextVar[Caller] = ContextVar("caller", default=NOBODY)
