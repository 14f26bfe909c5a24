"""The server's ticket: when it is renewed, and what is told when it is not. The library is a fake."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from server.kerberos.ccache import read_clock_offset
from server.kerberos.errors import KerberosError
from server.kerberos.gssapi import GssError, Ticket
from server.kerberos.tickets import KeytabTickets
from tests.server.kerberos.keytabs import write_keytab

EXPIRED, NO_CREDENTIALS = 11 << 16, 7 << 16
NO_KDC = -1765328228


def refuse(status: int, text: str, code: int = 0) -> GssError:
    error = GssError.__new__(GssError)
    KerberosError.__init__(error, text, code)
    error.status = status
    return error


def write_header(clock_offset: int) -> bytes:
    """The first bytes of a cache, by a KDC whose clock is so many seconds ahead."""
    return struct.pack(">HHHHii", 0x0504, 12, 1, 8, clock_offset, 0)


@dataclass
class FakeLibrary:
    """A cache with a ticket of `holder`, and a KDC that grants tickets unless it is away."""

    cache: Path
    holder: str | None = None
    seconds: int = 0
    kdc: GssError | None = None
    requested_principals: list[str] = field(default_factory=list)
    clock_offset: int = 0

    def __call__(self, principal: str | None, store: Mapping[str, str] | None) -> Ticket:
        assert store is not None
        if self.holder is not None and not self.cache.exists():
            self.holder = None
        may_ask = "dev/null" not in store["client_keytab"]
        if store["ccache"] != f"FILE:{self.cache}":
            granted = self._grant(str(principal))
            Path(store["ccache"].removeprefix("FILE:")).write_bytes(write_header(self.clock_offset))
            return granted
        if self.holder is not None and principal not in (None, self.holder):
            raise refuse(NO_CREDENTIALS, "Principal in credential cache does not match desired name")
        if self.holder is not None and self.seconds > 0:
            return Ticket(principal=self.holder, seconds=self.seconds)
        if not may_ask or (self.holder is not None and self.kdc is not None):
            raise refuse(EXPIRED if self.holder is not None else NO_CREDENTIALS, "Success")
        ticket = self._grant(str(principal))
        self.put(ticket.principal, ticket.seconds)
        return ticket

    def put(self, holder: str, seconds: int) -> None:
        self.cache.write_bytes(write_header(self.clock_offset) + b"ticket")
        self.holder, self.seconds = holder, seconds

    def _grant(self, principal: str) -> Ticket:
        self.requested_principals.append(principal)
        if self.kdc is not None:
            raise self.kdc
        return Ticket(principal=principal, seconds=36_000)


@pytest.fixture
def library(tmp_path: Path) -> FakeLibrary:
    return FakeLibrary(tmp_path / "krb5cc")


@pytest.fixture
def tickets(tmp_path: Path, library: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> KeytabTickets:
    for name in ("KRB5CCNAME", "KRB5_CLIENT_KTNAME"):
        monkeypatch.setenv(name, "elsewhere")
    keytab = write_keytab(tmp_path / "keytab", "firn@FIRN.TEST")
    return KeytabTickets("firn@FIRN.TEST", keytab, library.cache, library)


def test_the_libraries_of_the_process_find_keytab_and_cache(tickets: KeytabTickets, tmp_path: Path) -> None:
    tickets.prepare()
    assert os.environ["KRB5_CLIENT_KTNAME"] == f"FILE:{tmp_path}/keytab"
    assert os.environ["KRB5CCNAME"] == f"FILE:{tmp_path}/krb5cc"


def test_a_restart_keeps_the_ticket_unless_it_is_of_another_principal(
    tickets: KeytabTickets, library: FakeLibrary
) -> None:
    library.put("firn@FIRN.TEST", 500)
    tickets.prepare()
    assert library.cache.exists()
    library.put("hive@FIRN.TEST", 500)
    tickets.prepare()
    assert not library.cache.exists()
    library.put("hive@FIRN.TEST", 500)  # another library was the first to ask, and took the keytab's first principal
    assert tickets.renew().principal == "firn@FIRN.TEST"


def test_a_keytab_that_others_can_read_is_reported(tickets: KeytabTickets, caplog: pytest.LogCaptureFixture) -> None:
    tickets.prepare()
    assert not caplog.records
    tickets.keytab.chmod(0o640)
    tickets.prepare()
    assert "others than the server's user can read the keytab" in caplog.text


def test_the_status_needs_no_kdc(tickets: KeytabTickets, library: FakeLibrary) -> None:
    assert tickets.status().expires_at is None
    library.put("firn@FIRN.TEST", 600)
    status = tickets.status()
    assert status.principal == "firn@FIRN.TEST"
    assert status.error is None
    assert status.expires_at is not None
    assert 590 < (status.expires_at - datetime.now(UTC)).total_seconds() <= 600
    assert library.requested_principals == []


def test_an_expired_ticket_that_cannot_be_renewed_is_explained(tickets: KeytabTickets, library: FakeLibrary) -> None:
    tickets.renew()
    library.seconds, library.kdc = 0, refuse(NO_CREDENTIALS, "Cannot contact any KDC for realm 'FIRN.TEST'", NO_KDC)
    with pytest.raises(KerberosError, match=r"the ticket has expired: Cannot contact any KDC.*; no KDC answers: check"):
        tickets.renew()
    status = tickets.status()
    assert status.expires_at is None
    assert "no KDC answers" in str(status.error)
    library.kdc = None
    library.cache.unlink()
    assert tickets.renew().seconds == 36_000
    assert tickets.status().error is None


def test_a_first_ticket_that_is_refused_is_explained(tickets: KeytabTickets, library: FakeLibrary) -> None:
    library.kdc = refuse(NO_CREDENTIALS, "Preauthentication failed", -1765328360)
    with pytest.raises(KerberosError, match="Preauthentication failed; the realm has a newer key: export the keytab"):
        tickets.renew()
    assert "Preauthentication failed" in str(tickets.status().error)
    assert "Preauthentication failed" in str(tickets.explain_refusal())


def test_a_renewal_that_fails_is_told_while_the_ticket_is_valid(tickets: KeytabTickets, library: FakeLibrary) -> None:
    """The library keeps silent about it, and hours later nothing works any more."""
    tickets.activate()
    library.kdc = refuse(NO_CREDENTIALS, "Client 'firn@FIRN.TEST' not found in Kerberos database", -1765328378)
    library.seconds = 20_000
    assert tickets.activate().error is None
    library.seconds = 17_000
    assert tickets.renew().seconds == 17_000
    with pytest.raises(KerberosError, match=r"due for renewal and lasts 17000 s more: Client .firn@FIRN\.TEST. not"):
        tickets.activate()
    assert tickets.status().expires_at is not None
    assert "not found" in str(tickets.status().error)
    library.kdc, library.seconds = None, 36_000
    assert tickets.activate().error is None


def test_a_ticket_of_a_wrong_clock_is_replaced_once_the_clock_is_right(
    tickets: KeytabTickets, library: FakeLibrary
) -> None:
    """Services would refuse requests that are signed with the old difference, until the ticket is due for renewal."""
    library.clock_offset = 900
    tickets.activate()
    assert tickets.try_keytab().clock_offset_seconds == read_clock_offset(library.cache) == 900
    before = library.cache.stat().st_ino, library.cache.stat().st_mtime_ns
    library.clock_offset = 950
    tickets.activate()
    assert (library.cache.stat().st_ino, library.cache.stat().st_mtime_ns) == before, "the clock is still wrong"
    library.kdc = refuse(NO_CREDENTIALS, "Cannot contact any KDC for realm 'FIRN.TEST'", NO_KDC)
    tickets.activate()
    assert library.cache.exists(), "without a KDC there would be no ticket at all"
    library.kdc, library.clock_offset = None, 2
    tickets.activate()
    assert read_clock_offset(library.cache) == 2
    library.requested_principals.clear()
    tickets.activate()
    assert library.requested_principals == []


def test_a_cache_that_tells_no_clock_has_none(tmp_path: Path) -> None:
    cache = tmp_path / "krb5cc"
    assert read_clock_offset(cache) == 0
    for content in (b"", b"\x05\x04\x00", write_header(900)[:10], b"\x05\x03" + write_header(900)[2:], b"x" * 100):
        cache.write_bytes(content)
        assert read_clock_offset(cache) == 0
    cache.write_bytes(write_header(-900) + b"more")
    assert read_clock_offset(cache) == -900
