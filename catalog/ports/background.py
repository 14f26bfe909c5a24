"""The database's record of the server that does background work; errors as in catalog.ports.store."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Leaders(Protocol):
    """Which server does the background work."""

    def claim(self, holder: str, *, now: datetime, until: datetime) -> int | None:
        """Take or renew the leadership: its term; None while another server's claim has not lapsed."""

    def holds(self, holder: str, term: int) -> bool:
        """Whether this term of the holder is still the current one, which it then is until the transaction ends."""
