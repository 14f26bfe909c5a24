"""The server's Kerberos ticket."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketStatus:
    """The state of the ticket."""

    principal: str
    expires_at: datetime | None
    """None if there is no valid ticket. The next call of a service gets one, unless there is an error."""
    error: str | None = None
    """Why this process could not renew the ticket when it last tried; the ticket may still be valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeytabTrial:
    """What the KDC answers to the keytab now."""

    refusal: str | None
    """Why it gives no ticket; None if it gives one."""
    clock_offset_seconds: int = 0
    """By how much its clock is ahead of this machine's, negative if it is behind."""


class Tickets(Protocol):
    """The ticket of the server's principal, from its keytab."""

    def status(self) -> TicketStatus:
        """Look at the cached ticket, without the network."""

    def try_keytab(self) -> KeytabTrial:
        """Ask for a ticket with the keytab, even if there is a valid one, and keep none."""

    def activate(self) -> TicketStatus:
        """Renew the ticket when it is due, or when the KDC's clock has been corrected since it came.

        OSError if it was due and could not be renewed.
        """
