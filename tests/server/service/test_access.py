"""Tokens, roles and administrators, on both databases."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from catalog.access.privileges import ADMIN, SERVER, Caller, Grant, PrincipalKind, Privilege, RoleName, Securable
from catalog.access.tokens import Secret, TokenKind
from catalog.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from catalog.names import CatalogName
from catalog.ports.store import Database
from server.container import build_access
from server.service.access.access_control import Access
from server.service.access.cleanup import AccessCleanup
from server.service.access.tokens import TokenRequest
from server.settings import AccessSettings, Settings
from tests.factories import LAKE, a_catalog

DB = Securable(LAKE, ("db",))
PERSON = PrincipalKind.PERSON


@pytest.fixture
def access(database: Database) -> Access:
    with database.writing() as uow:
        uow.catalogs.add(a_catalog())
    return build_access(AccessSettings(enabled=True, cache_seconds=60), database)


@pytest.fixture
def admin(access: Access) -> Caller:
    return called(access, access.principals.create_first_admin())


def called(access: Access, secret: Secret | None) -> Caller:
    assert secret is not None
    return access.token_checker.check(secret.text)


def a_user(access: Access, admin: Caller, name: str, *grants: Grant) -> Secret:
    """With a token and a role of these grants."""
    access.principals.add_person(name)
    access.roles.create(f"of-{name}", "")
    for grant in grants:
        access.roles.grant(admin, RoleName(f"of-{name}"), grant.on, [grant.privilege])
    access.principals.assign(admin, RoleName(f"of-{name}"), name)
    return access.tokens.create(admin, TokenRequest(name="test", owner=name)).secret


def test_the_first_administrator_is_made_once(access: Access) -> None:
    first = called(access, access.principals.create_first_admin())
    assert first.rights.administers
    assert access.principals.create_first_admin() is None


def test_a_lost_admin_token_is_replaced_and_the_old_ones_end(access: Access) -> None:
    old = access.principals.create_first_admin()
    assert old is not None
    again = called(access, access.principals.create_admin_token())
    assert again.rights.administers
    with pytest.raises(Unauthenticated, match="revoked"):
        access.token_checker.check(old.text)


def test_a_token_cannot_be_guessed_from_what_is_kept(access: Access, admin: Caller, database: Database) -> None:
    secret = a_user(access, admin, "ada")
    with database.reading() as uow:
        kept = uow.tokens.find(secret.id)
    assert kept is not None
    assert secret.text.encode() not in kept.hash
    assert len(kept.hash) == 32
    assert secret.text not in repr(kept) + repr(secret)
    with pytest.raises(Unauthenticated):
        access.token_checker.check(f"{secret.text[:-1]}{'0' if secret.text[-1] != '0' else '1'}")


def test_what_is_revoked_or_taken_away_counts_at_once_here(access: Access, admin: Caller) -> None:
    secret = a_user(access, admin, "ada", Grant(DB, Privilege.READ))
    assert called(access, secret).rights.has(Privilege.READ, DB)
    access.roles.revoke(admin, RoleName("of-ada"), DB, [Privilege.READ])
    assert not called(access, secret).rights.sees(DB)
    access.principals.set_disabled("ada", PERSON, disabled=True)
    with pytest.raises(Unauthenticated):
        called(access, secret)
    access.principals.set_disabled("ada", PERSON, disabled=False)
    access.tokens.revoke(admin, secret.id)
    with pytest.raises(Unauthenticated):
        called(access, secret)


def test_another_server_hears_of_a_revocation_when_it_has_forgotten(database: Database, access: Access) -> None:
    here = called(access, access.principals.create_first_admin())
    there = build_access(AccessSettings(enabled=True, cache_seconds=0.001), database)
    secret = a_user(access, here, "ada")
    assert called(there, secret).principal.name == "ada"
    access.tokens.revoke(here, secret.id)
    while there.token_checker.recall(secret.text) is not None:
        pass
    with pytest.raises(Unauthenticated):
        called(there, secret)


def test_a_caller_that_was_read_before_a_change_is_not_remembered_after_it(
    access: Access, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = a_user(access, admin, "ada")
    looks = access.token_checker._by_token

    def revoked_meanwhile(checked_secret: Secret) -> object:
        attempts = looks(checked_secret)
        access.tokens.revoke(admin, secret.id)
        return attempts

    with monkeypatch.context() as slow:
        slow.setattr(access.token_checker, "_by_token", revoked_meanwhile)
        access.token_checker.check(secret.text)
    with pytest.raises(Unauthenticated):
        access.token_checker.check(secret.text)


def test_a_token_gives_some_roles_in_some_catalogs_and_never_more_than_its_owner(access: Access, admin: Caller) -> None:
    a_user(access, admin, "ada", Grant(SERVER, Privilege.READ))
    limited = access.tokens.create(admin, TokenRequest(name="x", owner="ada", catalogs=[LAKE])).secret
    caller = called(access, limited)
    assert caller.rights.has(Privilege.READ, DB)
    assert not caller.rights.sees(Securable(CatalogName("other")))
    beyond = access.tokens.create(admin, TokenRequest(name="x", owner="ada", roles=[ADMIN])).secret
    assert called(access, beyond).rights.grants == []


def test_a_limited_token_makes_no_wider_one_and_none_that_outlives_it(access: Access, admin: Caller) -> None:
    a_user(access, admin, "ada", Grant(SERVER, Privilege.READ))
    request = TokenRequest(name="x", owner="ada", catalogs=[LAKE], expires_in=timedelta(hours=1))
    issued = access.tokens.create(admin, request)
    caller = called(access, issued.secret)
    child = access.tokens.create(caller, TokenRequest(name="child")).token
    assert child.catalogs == (LAKE,)
    assert child.expires_at == issued.token.expires_at
    with pytest.raises(Invalid, match="outlive"):
        access.tokens.create(caller, TokenRequest(name="child", expires_in=timedelta(days=1)))
    with pytest.raises(Forbidden):
        access.tokens.create(caller, TokenRequest(name="child", roles=[ADMIN]))


def test_nobody_makes_sees_or_revokes_anothers_tokens_but_administrators(access: Access, admin: Caller) -> None:
    ada = a_user(access, admin, "ada", Grant(Securable(LAKE), Privilege.GRANT))
    caller, others = called(access, ada), admin.token_id
    assert others is not None
    with pytest.raises(Forbidden):
        access.tokens.create(caller, TokenRequest(name="x", owner="admin"))
    for owner in ("admin", "nobody", "*"):
        with pytest.raises(Forbidden):
            access.tokens.list(caller, owner, None, limit=9, cursor=None)
    with pytest.raises(NotFound):
        access.tokens.revoke(caller, others)
    listed, _ = access.tokens.list(caller, None, None, limit=9, cursor=None)
    assert [principal.id for principal in listed.items] == [ada.id]
    everybodys, owners = access.tokens.list(admin, "*", TokenKind.BEARER, limit=9, cursor=None)
    assert {owners[principal.owner] for principal in everybodys.items} == {"ada", "admin"}


def test_who_has_grant_somewhere_passes_on_what_they_have_there_and_nothing_else(access: Access, admin: Caller) -> None:
    lead = called(access, a_user(access, admin, "lead", Grant(DB, Privilege.GRANT), Grant(DB, Privilege.READ)))
    access.roles.create("team", "")
    team = RoleName("team")
    access.roles.grant(lead, team, Securable(LAKE, ("db",), "t"), [Privilege.READ])
    for grant in (Grant(DB, Privilege.WRITE), Grant(Securable(LAKE), Privilege.READ), Grant(SERVER, Privilege.READ)):
        with pytest.raises(Forbidden):
            access.roles.grant(lead, team, grant.on, [grant.privilege])
    access.principals.add_person("bob")
    assert [principal.role for principal in access.principals.assign(lead, team, "bob").roles] == ["team"]
    for role in (ADMIN, RoleName("optimizer")):
        with pytest.raises(Forbidden):
            access.principals.assign(lead, role, "bob")


def test_somebody_always_administers_the_server(access: Access, admin: Caller) -> None:
    for attempt in (
        lambda: access.principals.remove("admin", PERSON),
        lambda: access.principals.set_disabled("admin", PERSON, disabled=True),
        lambda: access.principals.unassign(admin, ADMIN, "admin"),
    ):
        with pytest.raises(Conflict, match="last administrator"):
            attempt()
    access.principals.add_person("ada")
    access.principals.assign(admin, ADMIN, "ada")
    access.principals.remove("admin", PERSON)


def test_roles_that_came_with_the_server_stay_as_they_are(access: Access, admin: Caller) -> None:
    with pytest.raises(Conflict):
        access.roles.remove(ADMIN)
    with pytest.raises(Conflict):
        access.roles.revoke(admin, ADMIN, SERVER, [Privilege.READ])


def test_dropping_a_role_takes_it_from_all_who_have_it(access: Access, admin: Caller) -> None:
    secret = a_user(access, admin, "ada", Grant(DB, Privilege.READ))
    access.roles.remove(RoleName("of-ada"))
    assert called(access, secret).roles == frozenset()
    access.roles.create("of-ada", "")
    assert called(access, secret).roles == frozenset()


def test_a_tokens_last_use_is_known_to_the_minute(access: Access, admin: Caller, database: Database) -> None:
    secret = a_user(access, admin, "ada")
    called(access, secret)
    access_cleanup = AccessCleanup(database, access.token_checker, access.audit_log, timedelta(days=1))
    access_cleanup.flush()
    with database.reading() as uow:
        used = uow.tokens.find(secret.id)
    assert used is not None
    assert used.last_used_at is not None
    access.token_checker.clear_cache()
    called(access, secret)
    assert secret.id not in access.token_checker.take_used()


def test_tokens_that_ended_long_ago_are_forgotten(access: Access, admin: Caller, database: Database) -> None:
    secret = a_user(access, admin, "ada")
    with database.writing() as uow:
        now = uow.now()
        uow.tokens.revoke(secret.id, now - timedelta(days=31))
    assert (
        AccessCleanup(database, access.token_checker, access.audit_log, timedelta(days=1)).remove_expired().tokens == 1
    )
    assert called(access, access.principals.create_admin_token()).rights.administers


def test_settings_let_nobody_in_from_outside_without_access_control(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="loopback"):
        Settings(data_dir=tmp_path, host="0.0.0.0")
    assert Settings(data_dir=tmp_path, host="0.0.0.0", access=AccessSettings(enabled=True)).host == "0.0.0.0"
    with pytest.raises(ValidationError, match="https"):
        AccessSettings(oidc_issuer="http://issuer.example", oidc_audience="firn")
    with pytest.raises(ValidationError, match="oidc_audience"):
        AccessSettings(oidc_issuer="https://issuer.example")
