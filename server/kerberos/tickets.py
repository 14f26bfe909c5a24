"""The ticket of the server's principal: from the keytab, into a cache in the data directory, renewed for weeks."""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from catalog.ports.tickets import KeytabTrial, TicketStatus
from server.kerberos.ccache import MOST_SECONDS, read_clock_offset
from server.kerberos.errors import KerberosError
from server.kerberos.gssapi import GssError, Ticket, acquire_ticket

CACHE = "krb5cc"
"""The name of the cache in the data directory."""
_NO_KEYTAB = "FILE:/dev/null"
_EXPIRED = 11 << 16
"""GSS_S_CREDENTIALS_EXPIRED."""
_RETRY_SECONDS = 60
log = logging.getLogger(__name__)

Acquire = Callable[[str | None, Mapping[str, str] | None], Ticket]


class KeytabTickets:
    """See catalog.ports.tickets. Safe to share between threads; processes may share the cache."""

    def __init__(self, principal: str, keytab: Path, cache: Path, acquire: Acquire = acquire_ticket) -> None:
        """`principal` has its realm. Nothing happens before the first call."""
        self.principal, self.keytab, self.cache = principal, keytab, cache
        self._acquire = acquire
        self._lifetime = self._seconds_left = 0
        self._error: str | None = None

    def prepare(self) -> None:
        """Let the libraries of this process use keytab and cache, before the first call of any of them.

        They take the principal from the cache, so another one's ticket is removed. A valid ticket stays: the KDC may be
        away while the server restarts.
        """
        os.environ["KRB5_CLIENT_KTNAME"] = f"FILE:{self.keytab}"
        os.environ["KRB5CCNAME"] = f"FILE:{self.cache}"
        self._forget_others()
        if stat.S_IMODE(self.keytab.stat().st_mode) & 0o077:
            log.warning(
                "others than the server's user can read the keytab: chmod 600", extra={"path": str(self.keytab)}
            )

    def renew(self) -> Ticket:
        """Have a valid ticket, a new one if half of the old one's time has passed; KerberosError if there is none.

        This asks the KDC only when the ticket is due. While the old one is valid, a failure is no error.
        """
        try:
            ticket = self._acquire_or_explain()
        except KerberosError as error:
            self._error = str(error)
            raise
        if ticket.seconds > self._seconds_left:
            self._lifetime = ticket.seconds
        self._seconds_left = ticket.seconds
        if not self._is_overdue:
            self._error = None
        return ticket

    def activate(self) -> TicketStatus:
        """See the port."""
        self.renew()
        if self._forget_other_clock():
            self.renew()
        if self._is_overdue and (reason := self.explain_refusal()) is not None:
            self._error = reason
            raise KerberosError(f"the ticket was due for renewal and lasts {self._seconds_left} s more: {reason}")
        return self.status()

    def try_keytab(self) -> KeytabTrial:
        """See the port."""
        with tempfile.TemporaryDirectory(prefix="firn-ticket-") as directory:
            cache = Path(directory, CACHE)
            try:
                self._acquire(self.principal, self._store(cache))
            except KerberosError as error:
                return KeytabTrial(refusal=str(error))
            return KeytabTrial(refusal=None, clock_offset_seconds=read_clock_offset(cache))

    def explain_refusal(self) -> str | None:
        """Why the KDC gives no ticket for the keytab now; None if it gives one."""
        return self.try_keytab().refusal

    def status(self) -> TicketStatus:
        """See the port."""
        try:
            ticket = self._read()
        except GssError:
            return TicketStatus(principal=self.principal, expires_at=None, error=self._error)
        expires_at = datetime.now(UTC) + timedelta(seconds=ticket.seconds)
        return TicketStatus(principal=self.principal, expires_at=expires_at, error=self._error)

    @property
    def _is_overdue(self) -> bool:
        """Whether the library has tried to renew the ticket, which it does every 30 s, and could not."""
        return self._seconds_left + _RETRY_SECONDS < self._lifetime / 2

    def _acquire_or_explain(self) -> Ticket:
        try:
            return self._acquire(self.principal, self._store(self.cache))
        except GssError as error:
            if self._forget_others():
                return self._acquire(self.principal, self._store(self.cache))
            if error.status != _EXPIRED:
                raise
        # The library does not tell why it could not renew an expired ticket.
        if (reason := self.explain_refusal()) is not None:
            raise KerberosError(f"the ticket has expired: {reason}")
        return self._acquire(self.principal, self._store(self.cache))

    def _forget_other_clock(self) -> bool:
        """Remove a ticket of a KDC whose clock was wrong and has been corrected, or of a time when ours was wrong.

        The library signs requests with the clock that the KDC had. Services would refuse them until the ticket is due.
        """
        then = read_clock_offset(self.cache)
        if abs(then) < MOST_SECONDS:
            return False
        trial = self.try_keytab()
        is_other = trial.refusal is None and abs(trial.clock_offset_seconds - then) >= MOST_SECONDS
        if is_other:
            self.cache.unlink(missing_ok=True)
        return is_other

    def _forget_others(self) -> bool:
        """Remove the ticket of another principal, for example of one that the settings named before."""
        try:
            is_other = self._read().principal != self.principal
        except GssError:
            return False
        if is_other:
            self.cache.unlink(missing_ok=True)
        return is_other

    def _read(self) -> Ticket:
        return self._acquire(None, {"ccache": f"FILE:{self.cache}", "client_keytab": _NO_KEYTAB})

    def _store(self, cache: Path) -> dict[str, str]:
        return {"ccache": f"FILE:{cache}", "client_keytab": f"FILE:{self.keytab}"}
