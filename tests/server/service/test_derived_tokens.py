"""Tokens that come from others end with them, and no chain of exchanges lives longer than what began it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Event, Thread
from uuid import UUID

import pytest

from catalog.access.privileges import Caller, PrincipalId, PrincipalKind, RoleName
from catalog.access.tokens import Secret, Token, TokenKind, compute_exchange_end
from catalog.errors import Forbidden, NoSuchCatalog, TokenEnded, Unauthenticated
from catalog.names import CatalogName
from catalog.ports.access import Claims
from catalog.ports.store import Database
from server.container import build_access
from server.service.access.access_control import Access
from server.service.access.cleanup import AccessCleanup
from server.service.access.tokens import Issued, TokenRequest
from server.settings import AccessSettings
from tests.factories import a_catalog

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)


@pytest.fixture
def access(database: Database) -> Access:
    with database.writing() as uow:
        uow.catalogs.add(a_catalog())
    return build_access(AccessSettings(enabled=True, cache_seconds=0.001), database)


@pytest.fixture
def admin(access: Access) -> Caller:
    secret = access.principals.create_first_admin()
    assert secret is not None
    return access.token_checker.check(secret.text)


@pytest.fixture
def service(access: Access) -> Issued:
    """The first access token of a service."""
    _, secret = access.principals.add_service("spark")
    return access.tokens.issue_for_client("spark", secret.text)


def is_good(access: Access, secret: Secret) -> bool:
    access.token_checker.clear_cache()
    try:
        return access.token_checker.check(secret.text) is not None
    except Unauthenticated:
        return False


def row(database: Database, issued: Issued) -> Token:
    with database.reading() as uow:
        token = uow.tokens.find(issued.token.id)
    assert token is not None
    return token


def test_a_chain_of_exchanges_ends_where_its_first_token_says() -> None:
    """A token of an hour was exchanged for another one for ever."""
    first = compute_exchange_end(NOW, DAY, None)
    token = Token(
        id="a" * 12,
        kind=TokenKind.ACCESS,
        owner=PrincipalId(UUID(int=1)),
        name="",
        hash=b"",
        created_at=NOW,
        expires_at=NOW + HOUR,
        renewable_until=first,
    )
    for hours in range(24):
        assert compute_exchange_end(NOW + hours * HOUR, DAY, token) == NOW + DAY
    bearer = replace(token, kind=TokenKind.BEARER, expires_at=NOW + 2 * HOUR, renewable_until=None)
    assert compute_exchange_end(NOW, DAY, bearer) == NOW + 2 * HOUR
    assert compute_exchange_end(NOW, DAY, replace(bearer, expires_at=None)) == NOW + DAY
    assert compute_exchange_end(NOW, DAY, None, NOW + timedelta(minutes=5)) == NOW + timedelta(minutes=5)


def test_no_token_of_a_chain_outlives_the_chain(database: Database) -> None:
    access = build_access(AccessSettings(enabled=True, access_token_seconds=60, exchange_seconds=60), database)
    access.principals.create_first_admin()
    _, secret = access.principals.add_service("spark")
    first = access.tokens.issue_for_client("spark", secret.text)
    issued = first
    for _ in range(3):
        issued = access.tokens.exchange(issued.secret.text)
        assert issued.token.expires_at == issued.token.renewable_until == first.token.renewable_until
    assert first.token.renewable_until is not None
    assert first.token.renewable_until <= first.token.created_at + timedelta(seconds=60)


def test_what_was_exchanged_ends_when_any_token_before_it_is_revoked(
    access: Access, admin: Caller, service: Issued
) -> None:
    chain = [service]
    for _ in range(4):
        chain.append(access.tokens.exchange(chain[-1].secret.text))
    beside = access.tokens.exchange(chain[1].secret.text)
    access.tokens.revoke(admin, chain[2].token.id)
    assert [is_good(access, token.secret) for token in (*chain, beside)] == [True, True, False, False, False, True]
    with pytest.raises(TokenEnded, match="revoked"):
        access.tokens.exchange(chain[3].secret.text)
    access.tokens.revoke(admin, service.token.id)
    assert not any(is_good(access, token.secret) for token in (*chain, beside))


def test_a_token_made_with_another_ends_when_that_one_is_revoked(access: Access, admin: Caller) -> None:
    access.principals.add_person("ada")
    first = access.tokens.create(admin, TokenRequest(name="first", owner="ada"))
    derived = access.tokens.create(access.token_checker.check(first.secret.text), TokenRequest(name="made with it"))
    exchanged = access.tokens.exchange(derived.secret.text)
    assert (derived.token.origin, exchanged.token.origin) == (first.token.id, derived.token.id)
    access.tokens.revoke(admin, first.token.id)
    assert not is_good(access, derived.secret)
    assert not is_good(access, exchanged.secret)


def test_a_token_that_is_given_to_somebody_stays_when_the_administrators_ends(access: Access, admin: Caller) -> None:
    access.principals.add_person("ada")
    token = access.tokens.create(admin, TokenRequest(name="x", owner="ada"))
    assert admin.token_id is not None
    access.tokens.revoke(admin, admin.token_id)
    assert is_good(access, token.secret)


def test_a_revoked_token_that_is_still_remembered_makes_no_other(access: Access, admin: Caller) -> None:
    access.principals.add_person("ada")
    first = access.tokens.create(admin, TokenRequest(name="first", owner="ada"))
    remembered = access.token_checker.check(first.secret.text)
    access.tokens.revoke(admin, first.token.id)
    with pytest.raises(TokenEnded, match="revoked"):
        access.tokens.create(remembered, TokenRequest(name="second"))


def test_derived_tokens_end_with_their_owner(access: Access, service: Issued) -> None:
    exchanged = access.tokens.exchange(service.secret.text)
    access.principals.set_disabled("spark", PrincipalKind.SERVICE, disabled=True)
    assert not is_good(access, exchanged.secret)
    with pytest.raises(Unauthenticated):
        access.tokens.exchange(exchanged.secret.text)


def test_an_exchange_while_its_token_is_revoked_leaves_nothing_good(
    access: Access, admin: Caller, service: Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The revocation waits for the exchange, or the exchange finds the token revoked."""
    parent = access.tokens.exchange(service.secret.text)
    holds, revoking, issued = Event(), Event(), list[Issued]()
    issue = access.tokens._issue_access_token.__func__  # type: ignore[attr-defined]

    def slow(*args: object) -> Issued:
        holds.set()
        revoking.wait(0.3)  # the other thread is on its way to the row or waits for it
        return issue(access.tokens, *args)  # type: ignore[no-any-return]

    monkeypatch.setattr(type(access.tokens), "_issue_access_token", lambda _self, *args: slow(*args))
    worker = Thread(target=lambda: issued.append(access.tokens.exchange(parent.secret.text)))
    worker.start()
    assert holds.wait(60)
    access.tokens.revoke(admin, service.token.id)
    worker.join(60)
    assert len(issued) == 1
    assert not is_good(access, issued[0].secret)


def test_a_token_of_the_issuer_ends_what_was_exchanged_for_it(access: Access, database: Database) -> None:
    """What an issuer's token of five minutes was exchanged for was good for hours, and could be renewed for ever."""
    with database.reading() as uow:
        ends = uow.now() + timedelta(minutes=5)
    claims = Claims(issuer="https://i", subject="1", name="ada", roles=frozenset(), expires_at=ends)

    class Always:
        def verified(self, token: str) -> Claims | None:
            return claims if token == "theirs" else None

    access.token_checker.issuer = Always()
    issued = access.tokens.exchange("theirs")
    again = access.tokens.exchange(issued.secret.text)
    assert issued.token.expires_at == again.token.expires_at == again.token.renewable_until == ends


def test_a_token_stays_findable_until_its_chain_is_over(access: Access, database: Database, service: Issued) -> None:
    """Forgotten sooner, revoking what is before it in the chain would not find what is behind it."""
    with database.writing() as uow:
        now = uow.now()
        uow.tokens.add(replace(row(database, service), id="a" * 12, expires_at=now - 2 * HOUR))
        uow.tokens.add(
            replace(row(database, service), id="b" * 12, expires_at=now - 2 * HOUR, renewable_until=now - 2 * HOUR)
        )
    AccessCleanup(database, access.token_checker, access.audit_log, DAY).remove_expired()
    with database.reading() as uow:
        assert uow.tokens.find("a" * 12) is not None
        assert uow.tokens.find("b" * 12) is None


def test_making_a_token_tells_nobody_which_roles_and_catalogs_there_are(access: Access, admin: Caller) -> None:
    access.principals.add_person("ada")
    ada = access.token_checker.check(access.tokens.create(admin, TokenRequest(name="x", owner="ada")).secret.text)
    messages = set()
    for role in ("admin", "no-such-role"):
        with pytest.raises(Forbidden) as refused:
            access.tokens.create(ada, TokenRequest(name="x", roles=[RoleName(role)]))
        messages.add(refused.value.message.replace(role, "ROLE"))
    for catalog in (a_catalog().name, CatalogName("no-such-catalog")):
        with pytest.raises(NoSuchCatalog) as unseen:
            access.tokens.create(ada, TokenRequest(name="x", catalogs=[catalog]))
        messages.add(unseen.value.message.replace(catalog, "CATALOG"))
    assert len(messages) == 2
