"""People who come with the tokens of a real issuer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from catalog.access.privileges import Grant, PrincipalKind, Privilege, Role, RoleName
from catalog.errors import Unauthenticated, Unavailable
from catalog.ports.store import Database
from server.identity import oidc
from server.service.access.token_check import TokenChecker
from tests.databases import OpenDatabase
from tests.oidc_issuer import Issuer, issuer_process
from tests.server.asgi import Client
from tests.server.guarded import Guarded, bearer, guarded, on


@pytest.fixture(scope="module")
def process() -> Iterator[Issuer]:
    with issuer_process() as running:
        yield running


@pytest.fixture
def issuer(process: Issuer, monkeypatch: pytest.MonkeyPatch) -> Issuer:
    monkeypatch.setattr(oidc, "PAUSE_SECONDS", 0.0)
    process.fail(failing=False)
    process.rotate(withdraw=True)
    return process


def a_server(database: Database, directory: Path, issuer: Issuer, **more: Any) -> Guarded:
    server = guarded(database, directory, oidc_issuer=issuer.url, oidc_audience="firn", cache_seconds=0.001, **more)
    with database.writing() as uow:
        for name in ("readers", "writers"):
            grants = frozenset({Grant(on("secret"), Privilege.READ)})
            uow.roles.add(Role(name=RoleName(name), description="", created_at=uow.now(), grants=grants))
    return server


@pytest.fixture
def server(opened_sqlite: OpenDatabase, tmp_path: Path, issuer: Issuer) -> Guarded:
    return a_server(opened_sqlite.database, tmp_path, issuer)


@pytest.fixture
def token_checker(server: Guarded) -> TokenChecker:
    return server.services.access.token_checker


def test_a_person_comes_with_name_and_roles_of_the_claims(token_checker: TokenChecker, issuer: Issuer) -> None:
    caller = token_checker.check(issuer.token(preferred_username="ada", groups=["readers", "no role here"]))
    assert caller.principal.name == "ada"
    assert caller.roles == {"readers"}
    assert caller.rights.has(Privilege.READ, on("secret", table="t"))
    assert token_checker.check(issuer.token(preferred_username="ada2")).principal.id == caller.principal.id


def test_a_group_that_was_left_takes_its_role_along(token_checker: TokenChecker, issuer: Issuer) -> None:
    token_checker.check(issuer.token(groups=["readers", "writers"]))
    assert token_checker.check(issuer.token(groups=["writers"], jti="2")).roles == {"writers"}
    assert token_checker.check(issuer.token(jti="3")).roles == frozenset()


def test_a_role_that_people_gave_stays_whatever_the_claims_say(
    server: Guarded, token_checker: TokenChecker, issuer: Issuer
) -> None:
    token_checker.check(issuer.token(preferred_username="ada", groups=["readers"]))
    admin = token_checker.check(server.admin.text)
    server.services.access.principals.assign(admin, RoleName("writers"), "ada")
    assert token_checker.check(issuer.token(jti="2")).roles == {"writers"}


def test_groups_are_mapped_and_found_inside_objects(
    opened_sqlite: OpenDatabase, tmp_path: Path, issuer: Issuer
) -> None:
    server = a_server(
        opened_sqlite.database,
        tmp_path,
        issuer,
        oidc_roles_claim="realm_access.roles",
        oidc_roles={"analysts of ours": "readers"},
    )
    token = issuer.token(realm_access={"roles": ["analysts of ours", "writers"]})
    assert server.services.access.token_checker.check(token).roles == {"readers"}


@pytest.mark.parametrize(
    "claims",
    [
        {"audience": "another"},
        {"lasts": -60},
        {"iss": "https://elsewhere"},
        {"nbf": 2**33},
        {"exp": None},
        {"aud": None},
    ],
    ids=str,
)
def test_tokens_for_others_or_of_others_are_no_good(
    token_checker: TokenChecker, issuer: Issuer, claims: dict[str, Any]
) -> None:
    with pytest.raises(Unauthenticated):
        token_checker.check(issuer.token(**claims))


def test_a_token_signed_with_another_key_is_refused(token_checker: TokenChecker, issuer: Issuer) -> None:
    good = issuer.token()
    claims = jwt.decode(good, options={"verify_signature": False})
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    header = jwt.get_unverified_header(good)
    forged = [
        jwt.encode(claims, key, "RS256", headers={"kid": header["kid"]}),
        jwt.encode(claims, key, "RS256", headers={"kid": "another"}),
        jwt.encode(claims, "", "none", headers={"kid": header["kid"]}),
        jwt.encode(claims, "x" * 32, "HS256", headers={"kid": header["kid"]}),
    ]
    for token in forged:
        with pytest.raises(Unauthenticated):
            token_checker.check(token)


def test_a_new_key_is_looked_for_and_a_withdrawn_one_no_good(
    token_checker: TokenChecker, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = issuer.token()
    token_checker.check(old)
    issuer.rotate("ES256")
    assert token_checker.check(issuer.token()).principal is not None
    assert token_checker.check(old).principal is not None
    issuer.rotate(withdraw=True)
    monkeypatch.setattr(oidc, "KEYS_FRESH_SECONDS", 0.0)
    with pytest.raises(Unauthenticated):
        token_checker.check(old)


def test_made_up_keys_do_not_make_the_server_ask_again_and_again(
    token_checker: TokenChecker, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "PAUSE_SECONDS", 60.0)
    token_checker.check(issuer.token())
    before = issuer.key_requests
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for number in range(5):
        with pytest.raises(Unauthenticated):
            token_checker.check(jwt.encode({"sub": "1"}, key, "RS256", headers={"kid": str(number)}))
    assert issuer.key_requests == before


def test_known_keys_go_on_while_the_issuer_is_away(
    server: Guarded, token_checker: TokenChecker, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = issuer.token()
    token_checker.check(token)
    issuer.fail(failing=True)
    monkeypatch.setattr(oidc, "KEYS_FRESH_SECONDS", 0.0)
    token_checker.clear_cache()
    assert token_checker.check(token).principal.name == "1"


def test_an_issuer_that_never_answered_is_no_reason_to_call_a_token_bad(
    token_checker: TokenChecker, issuer: Issuer
) -> None:
    token = issuer.token()
    issuer.fail(failing=True)
    with pytest.raises(Unavailable, match="issuer"):
        token_checker.check(token)


def test_nobody_takes_a_name_that_is_anothers(server: Guarded, token_checker: TokenChecker, issuer: Issuer) -> None:
    with pytest.raises(Unauthenticated, match="another"):
        token_checker.check(issuer.token(preferred_username="admin"))


def test_a_person_who_was_expected_is_known_by_their_subject(
    server: Guarded, token_checker: TokenChecker, issuer: Issuer
) -> None:
    server.services.access.principals.add_person("ada", issuer=issuer.url, subject="77")
    assert token_checker.check(issuer.token("77", preferred_username="someone")).principal.name == "ada"


def test_a_disabled_person_stays_out_and_so_does_an_unknown_token(
    server: Guarded, token_checker: TokenChecker, issuer: Issuer
) -> None:
    token = issuer.token(preferred_username="ada")
    caller = token_checker.check(token)
    server.services.access.principals.set_disabled(caller.principal.name, PrincipalKind.PERSON, disabled=True)
    with pytest.raises(Unauthenticated):
        token_checker.check(token)


@pytest.mark.parametrize(
    "claims",
    [
        *({"exp": 10**18}, {"exp": 10**400}, {"exp": -(10**18)}, {"exp": "10" * 20}, {"exp": 1e300}),
        *({"exp": float("inf")}, {"exp": float("nan")}, {"exp": None}, {"exp": [1]}, {"exp": {}}, {"exp": True}),
        *({"iat": 10**400}, {"nbf": 1e308}, {"nbf": "x"}, {"sub": "a\0b"}, {"sub": ["a"]}, {"sub": None}),
        {"preferred_username": "ada\0"},
    ],
    ids=str,
)
def test_a_claim_that_cannot_be_read_is_no_crash(server: Guarded, issuer: Issuer, claims: dict[str, Any]) -> None:
    """A token that expires in the year 31 billion was answered 500."""
    answer = Client(server.app).get("/api/v1/me", headers=bearer(issuer.token(**claims)))
    assert answer.status_code == 401, answer.text


def test_odd_names_of_groups_give_no_role_and_keep_nobody_out(server: Guarded, issuer: Issuer) -> None:
    token = issuer.token(preferred_username="ada", groups=["readers", "\0", 7, None, "x" * 10_000])
    assert Client(server.app).get("/api/v1/me", headers=bearer(token)).status_code == 200
