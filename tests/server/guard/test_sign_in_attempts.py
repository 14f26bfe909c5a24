"""Wrong client secrets are seen by auditors and slowed down, and keep nobody out who has the right one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from anyio.from_thread import start_blocking_portal

from catalog.access.audit_log import AuditFilter, Verdict
from server.service.access import sign_in_attempts as module
from server.service.access.sign_in_attempts import (
    MOST_AT_AN_ADDRESS,
    MOST_KEPT,
    MOST_OF_ONE_CLIENT,
    MOST_OF_ONE_CLIENT_AT_AN_ADDRESS,
    WINDOW_SECONDS,
    FailedAttempts,
)
from tests.databases import OpenDatabase
from tests.server.guarded import Guarded, guarded

HERE, THERE = "10.0.0.1", "10.0.0.2"


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def attempts(clock: Clock) -> FailedAttempts:
    return FailedAttempts(clock)


def fail(attempts: FailedAttempts, times: int, client: str = "spark", address: str = HERE) -> None:
    for _ in range(times):
        attempts.record_failure(client, address)


def test_a_client_waits_after_some_wrong_secrets_and_no_longer_than_a_minute(
    attempts: FailedAttempts, clock: Clock
) -> None:
    fail(attempts, MOST_OF_ONE_CLIENT_AT_AN_ADDRESS - 1)
    assert attempts.compute_wait("spark", HERE) == 0
    clock.now = 20
    fail(attempts, 1)
    assert attempts.compute_wait("spark", HERE) == WINDOW_SECONDS - 20
    assert attempts.compute_wait("trino", HERE) == 0
    clock.now = WINDOW_SECONDS
    assert attempts.compute_wait("spark", HERE) == 0


def test_a_flood_of_one_client_id_locks_it_out_nowhere_else(attempts: FailedAttempts) -> None:
    for number in range(MOST_OF_ONE_CLIENT * 2):
        fail(attempts, 1, address=f"10.1.{number // 250}.{number % 250}")
    assert attempts.compute_wait("spark", "10.1.0.0") > 0, "an address that has failed waits, even with one failure"
    assert attempts.compute_wait("spark", HERE) == 0


def test_a_client_that_got_in_before_is_not_locked_out_from_its_own_address(attempts: FailedAttempts) -> None:
    """An attacker behind the same proxy has the same address."""
    attempts.record_success("spark", HERE)
    fail(attempts, MOST_AT_AN_ADDRESS * 2)
    assert attempts.compute_wait("spark", HERE) == 0
    assert attempts.compute_wait("trino", HERE) > 0


def test_an_address_waits_however_many_client_ids_it_tries(attempts: FailedAttempts) -> None:
    for number in range(MOST_AT_AN_ADDRESS):
        fail(attempts, 1, client=f"client-{number}")
    assert attempts.compute_wait("another", HERE) > 0
    assert attempts.compute_wait("another", THERE) == 0


@pytest.mark.parametrize(
    ("address", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("fe80::1%eth0", "fe80::1%eth1", True),
        ("not an address", "another", False),
    ],
)
def test_who_has_an_ipv6_network_has_one_address(
    attempts: FailedAttempts, address: str, other: str, *, same: bool
) -> None:
    fail(attempts, MOST_AT_AN_ADDRESS, address=address)
    assert (attempts.compute_wait("spark", other) > 0) == same


def test_a_flood_takes_a_bounded_part_of_the_memory(attempts: FailedAttempts, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_KEPT <= 10_000
    monkeypatch.setattr(module, "MOST_KEPT", 50)
    for number in range(500):
        attempts.record_failure(f"c{number}" * 1_000, f"10.2.{number // 250}.{number % 250}")
        attempts.record_success(f"c{number}", HERE)
    kept = (attempts._pairs.kept, attempts._clients.kept, attempts._addresses.kept, attempts._proven)
    assert [len(failures) for failures in kept] == [50, 50, 50, 50]
    assert all(len(str(key)) < 300 for failures in kept for key in failures)


@dataclass
class Site:
    guarded: Guarded
    clock: Clock
    secret: str

    def ask(self, secret: str, client: str = "spark", address: str = HERE) -> httpx.Response:
        form = {"grant_type": "client_credentials", "client_id": client, "client_secret": secret}

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.guarded.app, client=(address, 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://firn", trust_env=False) as http:
                return await http.post("/iceberg/v1/oauth/tokens", data=form)

        with start_blocking_portal() as portal:
            return portal.call(send)


@pytest.fixture
def site(opened_sqlite: OpenDatabase, tmp_path: Path) -> Site:
    server, clock = guarded(opened_sqlite.database, tmp_path), Clock()
    _, secret = server.services.access.principals.add_service("spark")
    server.services.access.attempts.clock = clock
    return Site(server, clock, secret.text)


def test_wrong_client_secrets_are_in_the_audit_log(site: Site) -> None:
    site.ask("wrong", client="no\nbody")
    site.ask(f"{site.secret[:-1]}x")
    site.guarded.services.access.audit_log.flush()
    with site.guarded.services.database.reading() as uow:
        entries = uow.audit.list(AuditFilter(), limit=9).items
    assert [(entry.verdict, entry.target, entry.address, entry.status) for entry in entries] == [
        (Verdict.UNAUTHENTICATED, "client spark", HERE, 401),
        (Verdict.UNAUTHENTICATED, "client no\ufffdbody", HERE, 401),
    ]
    assert all(site.secret[:-1] not in str(entry) for entry in entries)


def test_too_many_wrong_secrets_are_answered_429_until_a_minute_is_over(site: Site) -> None:
    statuses = [site.ask("wrong").status_code for _ in range(MOST_OF_ONE_CLIENT_AT_AN_ADDRESS + 1)]
    assert statuses == [401] * MOST_OF_ONE_CLIENT_AT_AN_ADDRESS + [429]
    answer = site.ask(site.secret)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
    assert answer.json()["error"] == "temporarily_unavailable"
    assert site.ask(site.secret, address=THERE).status_code == 200
    site.clock.now = WINDOW_SECONDS
    assert site.ask(site.secret).status_code == 200


def test_a_wrong_secret_that_must_wait_is_not_looked_at(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(MOST_OF_ONE_CLIENT_AT_AN_ADDRESS):
        site.ask("wrong")

    def never(*_args: object) -> None:
        raise AssertionError

    monkeypatch.setattr(type(site.guarded.services.access.tokens), "issue_for_client", never)
    assert site.ask(site.secret).status_code == 429
