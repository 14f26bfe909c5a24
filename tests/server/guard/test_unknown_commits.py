"""A commit that is asked for again, by somebody who has lost the right meanwhile: no answer may cost files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from catalog.access.privileges import Caller, Grant, Privilege, RoleName
from catalog.access.tokens import Secret
from catalog.names import TableName
from tests.databases import OpenDatabase
from tests.factories import LAKE
from tests.server.guarded import SECRET, Guarded, bearer, client_of, guarded, on
from tests.server.lake import appended
from tests.server.listening import listening


@dataclass(frozen=True, kw_only=True)
class Writing:
    """A writer whose append was applied, and who asks again as if no answer had come."""

    server: Guarded
    http: httpx.Client
    token: Secret
    body: dict[str, Any]

    @property
    def admin(self) -> Caller:
        return self.server.services.access.token_checker.check(self.server.admin.text)

    def asks(self, body: dict[str, Any] | None = None) -> tuple[int, str]:
        path = "/iceberg/v1/lake/namespaces/secret/tables/t"
        answer = self.http.post(path, json=self.body if body is None else body, headers=bearer(self.token))
        return answer.status_code, "" if answer.is_success else answer.json()["error"]["type"]

    def new_append(self) -> dict[str, Any]:
        services = self.server.services
        location = services.tables.load(LAKE, SECRET).metadata_location
        assert location is not None
        change = appended(SECRET, services.metadata.load(location).parsed)
        return {"requirements": list(change.requirements), "updates": list(change.updates)}


@pytest.fixture
def writing(opened_sqlite: OpenDatabase, tmp_path: Path) -> Iterator[Writing]:
    server = guarded(opened_sqlite.database, tmp_path)
    token = server.token("writer", Grant(on("secret"), Privilege.WRITE), Grant(on("open"), Privilege.LIST))
    with listening(server.app) as url, client_of(url) as http:
        writing_client = Writing(server=server, http=http, token=token, body={})
        writing_client.body.update(writing_client.new_append())
        assert writing_client.asks() == (200, "")
        yield writing_client


UNKNOWN = (500, "CommitStateUnknownException")


def test_a_repeated_commit_is_unknown_to_one_whose_token_has_ended(writing: Writing) -> None:
    writing.server.services.access.tokens.revoke(writing.admin, writing.token.id)
    assert writing.asks() == UNKNOWN
    assert writing.asks(writing.new_append()) == (401, "NotAuthorizedException")


@pytest.mark.parametrize(
    ("left", "refused"), [("read", (403, "ForbiddenException")), ("", (404, "NoSuchTableException"))]
)
def test_a_repeated_commit_is_unknown_to_one_who_has_lost_the_privilege(
    writing: Writing, left: str, refused: tuple[int, str]
) -> None:
    roles, role = writing.server.services.access.roles, RoleName("role-of-writer")
    if left:
        roles.grant(writing.admin, role, on("secret"), [Privilege(left)])
    roles.revoke(writing.admin, role, on("secret"), [Privilege.WRITE])
    assert writing.asks() == UNKNOWN
    assert writing.asks(writing.new_append()) == refused


def test_a_token_that_has_ended_makes_nothing_happen(writing: Writing) -> None:
    before = writing.server.services.tables.load(LAKE, SECRET).metadata_location
    fresh = writing.new_append()
    writing.server.services.access.tokens.revoke(writing.admin, writing.token.id)
    assert writing.asks(fresh)[0] == 401
    for method, path in (("POST", "namespaces"), ("POST", "tables/rename"), ("POST", "nothing/here")):
        answer = writing.http.request(method, f"/iceberg/v1/lake/{path}", json={}, headers=bearer(writing.token))
        assert answer.status_code in (401, 404)
    assert writing.server.services.tables.load(LAKE, SECRET).metadata_location == before


def test_a_repeated_commit_is_unknown_to_one_who_may_not_read_the_table_under_its_new_name(writing: Writing) -> None:
    writing.server.services.tables.rename(LAKE, SECRET, TableName(("open",), "moved"))
    assert writing.asks() == UNKNOWN
    assert writing.asks({**writing.body, "updates": []}) == (404, "NoSuchTableException")
