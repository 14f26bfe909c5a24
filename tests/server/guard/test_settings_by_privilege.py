"""Maintaining is no way to delete: settings by which rows and history go take the privilege to write."""

from __future__ import annotations

import pytest

from catalog.access.privileges import Grant, Privilege
from catalog.access.tokens import Secret
from tests.server.asgi import Client
from tests.server.guarded import Guarded, bearer, on

POLICY = "/api/v1/catalogs/lake/policy"
TTL = {"firn.ttl.field": "ts", "firn.ttl.max-age": "1 s"}


@pytest.fixture
def maintainer(server: Guarded) -> Secret:
    return server.token("maintainer", Grant(on(), Privilege.MAINTAIN))


@pytest.mark.parametrize("scope", [{}, {"namespace": "secret"}], ids=["catalog", "namespace"])
def test_who_may_only_maintain_deletes_no_rows_by_their_age(
    server: Guarded, http: Client, maintainer: Secret, scope: dict[str, str]
) -> None:
    def patch(**body: object) -> int:
        return http.request("PATCH", POLICY, params=scope, json=body, headers=bearer(maintainer)).status_code

    assert patch(set=TTL) == 403
    assert patch(set={"firn.merge.mode": "auto"}, remove=["firn.ttl.max-age"]) == 403
    assert patch(set={"firn.merge.mode": "auto"}) == 200
    shown = http.get(POLICY, params=scope, headers=bearer(server.admin)).json()["settings"]
    assert shown == {"firn.merge.mode": "auto"}


def test_who_may_only_maintain_shortens_no_history(server: Guarded, http: Client, maintainer: Secret) -> None:
    """By setting, and by removing what keeps more than the default does."""
    keeps = {"firn.expire.max-age": "100 d"}
    assert http.request("PATCH", POLICY, json={"set": keeps}, headers=bearer(server.admin)).status_code == 200
    for body in ({"set": {"firn.expire.max-age": "1 s"}}, {"remove": ["firn.expire.max-age"]}):
        assert http.request("PATCH", POLICY, json=body, headers=bearer(maintainer)).status_code == 403
    for settings in ({}, keeps, {"firn.merge.mode": "auto"}):
        answer = http.request("PUT", POLICY, json={"settings": settings}, headers=bearer(maintainer))
        assert answer.status_code == 403
    assert http.get(POLICY, headers=bearer(server.admin)).json()["settings"] == keeps


def test_who_may_maintain_and_write_sets_both(server: Guarded, http: Client) -> None:
    both = server.token("both", *(Grant(on(), answer) for answer in (Privilege.MAINTAIN, Privilege.WRITE)))
    assert http.request("PATCH", POLICY, json={"set": TTL}, headers=bearer(both)).status_code == 200
    assert http.request("PUT", POLICY, json={"settings": {}}, headers=bearer(both)).status_code == 200
    writer = server.token("writer", Grant(on(), Privilege.WRITE))
    assert http.request("PATCH", POLICY, json={"set": TTL}, headers=bearer(writer)).status_code == 403


def test_who_may_only_maintain_does_not_say_how_long_dropped_tables_are_kept(http: Client, maintainer: Secret) -> None:
    path = "/api/v1/catalogs/lake/properties"
    for body in ({"set": {"firn.drop.retention": "0"}}, {"remove": ["firn.drop.retention"]}):
        assert http.request("PATCH", path, json=body, headers=bearer(maintainer)).status_code == 403
    assert http.request("PATCH", path, json={"set": {"owner": "ada"}}, headers=bearer(maintainer)).status_code == 200


def test_an_upgrade_brings_no_settings_that_delete_rows_for_who_may_only_create(server: Guarded, http: Client) -> None:
    """The new table has Hive's rows from its beginning."""
    creator = server.token("creator", *(Grant(on("secret"), answer) for answer in (Privilege.CREATE, Privilege.READ)))
    root = "/api/v1/catalogs/lake/hive"
    answer = http.post(f"{root}/secret.h/upgrade", json={"properties": TTL}, headers=bearer(creator))
    many = http.post(f"{root}/upgrade", json={"tables": ["secret.h"], "properties": TTL}, headers=bearer(creator))
    assert (answer.status_code, many.status_code) == (403, 403)
