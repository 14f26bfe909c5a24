"""Who has which role is an attacker's map: roles and their members are shown to those who may grant."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from catalog.access.privileges import SERVER, Grant, Privilege, RoleName
from catalog.access.tokens import Secret
from tests.server.asgi import Client
from tests.server.guarded import Guarded, bearer, on

ROLES = "/api/v1/roles"


@pytest.fixture
def reader(server: Guarded) -> Secret:
    return server.token("reader", Grant(on("open"), Privilege.READ))


@pytest.fixture
def lead(server: Guarded) -> Secret:
    """Who may pass on to read `open`."""
    return server.token("lead", *(Grant(on("open"), privilege) for privilege in (Privilege.GRANT, Privilege.READ)))


def names(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200
    return [role["name"] for role in answer.json()]


def same(first: httpx.Response, other: httpx.Response, *words: str) -> bool:
    """Whether two answers are alike but for these words."""
    texts = [answer.text.replace(answer.headers["x-request-id"], "…") for answer in (first, other)]
    for word in words:
        texts = [text.replace(word, "…") for text in texts]
    return first.status_code == other.status_code and texts[0] == texts[1]


def test_who_may_grant_nothing_sees_their_own_roles_alone(server: Guarded, http: Client, reader: Secret) -> None:
    """Every role's name, description and members were shown to everybody with a token."""
    server.token("other", Grant(on("secret"), Privilege.READ))
    assert names(http.get(ROLES, headers=bearer(reader))) == ["role-of-reader"]
    own = http.get(f"{ROLES}/role-of-reader", headers=bearer(reader)).json()
    assert (own["members"], [grant["privileges"] for grant in own["grants"]]) == (None, [["read"]])
    hidden, missing = (http.get(f"{ROLES}/{name}", headers=bearer(reader)) for name in ("role-of-other", "nobodys"))
    assert hidden.status_code == 404
    assert same(hidden, missing, "role-of-other", "nobodys")


def test_who_may_grant_sees_roles_and_the_members_of_those_that_they_may_give(
    server: Guarded, http: Client, reader: Secret, lead: Secret
) -> None:
    assert reader.id
    server.token("other", Grant(on("secret"), Privilege.READ))
    assert set(names(http.get(ROLES, headers=bearer(lead)))) >= {"admin", "role-of-reader", "role-of-other"}
    members = {
        name: http.get(f"{ROLES}/{name}", headers=bearer(lead)).json()["members"]
        for name in ("role-of-reader", "role-of-other", "admin")
    }
    assert members == {"role-of-reader": ["reader"], "role-of-other": None, "admin": None}
    assert http.get(f"{ROLES}/admin", headers=bearer(server.admin)).json()["members"] == ["admin"]


def test_who_may_grant_nothing_cannot_probe_for_roles_and_users(http: Client, reader: Secret) -> None:
    """403 for a role that there is and 404 for one that there is not told them apart."""
    grant: dict[str, Any] = {"on": {"catalog": "lake", "namespace": ["open"]}, "privileges": ["read"]}
    for method, path, body in (
        ("POST", f"{ROLES}/ROLE/grants", grant),
        ("POST", f"{ROLES}/ROLE/grants/revoke", grant),
        ("PUT", f"{ROLES}/ROLE/members/admin", None),
        ("DELETE", f"{ROLES}/ROLE/members/admin", None),
    ):
        there, missing = (
            http.request(method, path.replace("ROLE", role), json=body, headers=bearer(reader))
            for role in ("admin", "nobodys")
        )
        assert there.status_code == 403, path
        assert same(there, missing, "admin", "nobodys"), path


def test_a_grant_of_nothing_shows_no_role(http: Client, reader: Secret) -> None:
    """Nothing was checked for an empty list of privileges, and the role was the answer."""
    for path in ("grants", "grants/revoke"):
        body = {"on": {"catalog": "lake"}, "privileges": []}
        assert http.post(f"{ROLES}/admin/{path}", json=body, headers=bearer(reader)).status_code == 422


def test_a_role_that_gives_nothing_yet_is_given_by_administrators_alone(
    server: Guarded, http: Client, reader: Secret, lead: Secret
) -> None:
    """Anybody could take it, and had whatever was granted to it afterwards."""
    server.services.access.roles.create("future", "")
    for caller, name in ((reader, "reader"), (lead, "lead")):
        for method in ("PUT", "DELETE"):
            answer = http.request(method, f"{ROLES}/future/members/{name}", headers=bearer(caller))
            assert answer.status_code == 403
    assigned = http.request("PUT", f"{ROLES}/future/members/reader", headers=bearer(server.admin))
    assert [role["role"] for role in assigned.json()["roles"]] == ["future", "role-of-reader"]


def test_who_gives_a_role_learns_of_no_other_role_of_the_one_who_gets_it(
    server: Guarded, http: Client, lead: Secret
) -> None:
    server.token("other", Grant(on("secret"), Privilege.READ))
    server.services.access.roles.create("team", "")
    admin = server.services.access.token_checker.check(server.admin.text)
    server.services.access.roles.grant(admin, RoleName("team"), on("open"), [Privilege.READ])
    answer = http.request("PUT", f"{ROLES}/team/members/other", headers=bearer(lead)).json()
    assert [role["role"] for role in answer["roles"]] == ["team"]


def test_an_administrator_without_other_privileges_sees_who_has_what(server: Guarded, http: Client) -> None:
    auditor = server.token("auditor", Grant(SERVER, Privilege.GRANT))
    assert http.get(f"{ROLES}/admin", headers=bearer(auditor)).json()["members"] == ["admin"]


def test_everybody_is_told_their_own_roles(http: Client, reader: Secret) -> None:
    assert http.get("/api/v1/me", headers=bearer(reader)).json()["roles"] == ["role-of-reader"]
