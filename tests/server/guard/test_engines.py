"""Engines that know nothing of Firn, over a real socket: PyIceberg with a token and with a credential."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ForbiddenError, NoSuchTableError, OAuthError, UnauthorizedError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from catalog.access.privileges import Grant, Membership, Privilege, Role, RoleName
from tests.databases import OpenDatabase
from tests.server.guarded import Guarded, bearer, client_of, guarded, on
from tests.server.listening import listening

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"


@dataclass(frozen=True, kw_only=True)
class Site:
    guarded: Guarded
    url: str
    http: httpx.Client
    credential: str
    """Of the service `spark`, which reads `secret` and writes `open`."""

    def catalog(self, **properties: str) -> RestCatalog:
        oauth = {"oauth2-server-uri": f"{self.url}/iceberg/v1/oauth/tokens"}
        return RestCatalog("lake", uri=f"{self.url}/iceberg", warehouse="lake", **oauth, **properties)

    def request_token(self, **form: str) -> httpx.Response:
        return self.http.post("/iceberg/v1/oauth/tokens", data=form)

    def access_token(self) -> str:
        name, _, secret = self.credential.partition(":")
        answer = self.request_token(
            grant_type="client_credentials", client_id=name, client_secret=secret, scope="catalog"
        )
        assert answer.status_code == 200, answer.text
        token: str = answer.json()["access_token"]
        return token


@pytest.fixture
def site(opened_sqlite: OpenDatabase, tmp_path: Path) -> Iterator[Site]:
    server = guarded(opened_sqlite.database, tmp_path)
    known, secret = server.services.access.principals.add_service("spark")
    with opened_sqlite.database.writing() as uow:
        grants = {Grant(on("secret", table="t"), Privilege.READ)}
        grants |= {Grant(on("open"), privilege) for privilege in (Privilege.WRITE, Privilege.CREATE, Privilege.DROP)}
        uow.roles.add(Role(name=RoleName("etl"), description="", created_at=uow.now(), grants=frozenset(grants)))
        uow.roles.assign(known.principal.id, Membership(role=RoleName("etl")))
    with listening(server.app) as url, client_of(url) as http:
        yield Site(guarded=server, url=url, http=http, credential=f"spark:{secret.text}")


def test_pyiceberg_works_with_a_credential_and_sees_what_it_may(site: Site) -> None:
    catalog = site.catalog(credential=site.credential)
    assert catalog.list_namespaces() == [("open",), ("secret",)]
    assert catalog.list_tables("secret") == [("secret", "t")]
    assert catalog.list_views("secret") == []
    table = catalog.create_table(("open", "mine"), Schema(NestedField(1, "id", LongType())))
    table.transaction().set_properties(a="b").commit_transaction()
    catalog.drop_table(("open", "mine"))
    with pytest.raises(NoSuchTableError):
        catalog.load_table(("secret", "orders", "base"))
    with pytest.raises(ForbiddenError):
        catalog.load_table(("secret", "t")).transaction().set_properties(a="b").commit_transaction()


def test_pyiceberg_works_with_a_token_until_it_is_revoked(site: Site) -> None:
    token = site.guarded.token("ada", Grant(on("secret", table="orders"), Privilege.READ))
    catalog = site.catalog(token=token.text)
    assert catalog.load_table(("secret", "orders", "base")).metadata.format_version == 3
    assert not catalog.table_exists(("secret", "t"))
    admin = site.guarded.services.access.token_checker.check(site.guarded.admin.text)
    site.guarded.services.access.tokens.revoke(admin, token.id)
    with pytest.raises(UnauthorizedError):
        catalog.load_table(("secret", "orders", "base"))


def test_a_wrong_secret_is_refused_in_oauths_own_words(site: Site) -> None:
    with pytest.raises(OAuthError, match="invalid_client"):
        site.catalog(credential=f"{site.credential}0")
    answer = site.request_token(grant_type="client_credentials", client_id="nobody", client_secret="x")
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    assert site.request_token(grant_type="password").json()["error"] == "unsupported_grant_type"
    assert site.request_token().json()["error"] == "invalid_request"
    assert site.http.post("/iceberg/v1/oauth/tokens", json={}).json()["error"] == "invalid_request"


def test_a_client_may_say_who_it_is_in_the_header(site: Site) -> None:
    basic = base64.b64encode(site.credential.encode()).decode()
    answer = site.http.post(
        "/iceberg/v1/oauth/tokens",
        data={"grant_type": "client_credentials"},
        headers={"Authorization": f"Basic {basic}"},
    )
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"


def test_an_access_token_is_renewed_by_exchange_as_java_does(site: Site) -> None:
    first = site.access_token()
    answer = site.request_token(
        grant_type=EXCHANGE, subject_token=first, subject_token_type=ACCESS_TOKEN, scope="catalog"
    ).json()
    assert answer["access_token"] != first
    assert (answer["token_type"], answer["issued_token_type"]) == ("bearer", ACCESS_TOKEN)
    assert 0 < answer["expires_in"] <= 3600
    assert site.catalog(token=answer["access_token"]).list_tables("secret") == [("secret", "t")]


def test_what_was_exchanged_for_a_bearer_token_ends_with_it(site: Site) -> None:
    bearer = site.guarded.token("ada", Grant(on("secret"), Privilege.READ))
    exchanged = bearer.text
    for _ in range(2):
        answer = site.request_token(grant_type=EXCHANGE, subject_token=exchanged, subject_token_type=ACCESS_TOKEN)
        exchanged = answer.json()["access_token"]
    assert site.catalog(token=exchanged).list_tables("secret")
    admin = site.guarded.services.access.token_checker.check(site.guarded.admin.text)
    site.guarded.services.access.tokens.revoke(admin, bearer.id)
    with pytest.raises(UnauthorizedError):
        site.catalog(token=exchanged)
    answer = site.request_token(grant_type=EXCHANGE, subject_token=exchanged, subject_token_type=ACCESS_TOKEN)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")


def test_nobody_acts_for_somebody_else(site: Site) -> None:
    token = site.access_token()
    answer = site.request_token(
        grant_type=EXCHANGE, subject_token=token, subject_token_type=ACCESS_TOKEN, actor_token=token
    )
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


def test_a_new_secret_ends_the_old_one_and_its_tokens(site: Site) -> None:
    token = site.access_token()
    site.guarded.services.access.principals.rotate_client_secret("spark")
    with pytest.raises(UnauthorizedError):
        site.catalog(token=token)
    with pytest.raises(OAuthError):
        site.catalog(credential=site.credential)


def test_javas_clients_are_told_to_renew_by_their_credential(site: Site) -> None:
    """By exchange alone they would stop when the chain of exchanges is over."""
    answer = site.http.get("/iceberg/v1/config?warehouse=lake", headers=bearer(site.access_token()))
    assert answer.json()["defaults"] == {"token-exchange-enabled": "false"}
