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


class Tickets(Protocol):
    """The ticket of the server's principal, from its keytab."""

    def status(self) -> TicketStatus:
        """Look at the cached ticket, without the network."""

    def explain_refusal(self) -> str | None:
        """Ask for a ticket with the keytab, even if there is a valid one; why there is none, or None."""

    def activate(self) -> TicketStatus:
        """Renew the ticket when it is due; OSError if it was due and could not be renewed."""
