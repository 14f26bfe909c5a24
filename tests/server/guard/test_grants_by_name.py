"""A grant is on a name: what becomes of it when the table of that name goes, comes back or is called otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from catalog.access.privileges import Grant, Privilege
from catalog.jobs.job import JobId
from catalog.names import TableName
from tests.databases import OpenDatabase
from tests.factories import LAKE
from tests.server.guarded import SECRET, Guarded, client_of, guarded, on
from tests.server.lake import definition
from tests.server.listening import listening

TABLES = "/api/v1/catalogs/lake/tables"
DROPPED = "/api/v1/catalogs/lake/dropped"
MOVED = TableName(("secret",), "moved")


@dataclass(frozen=True)
class Names:
    """A lake, and a reader of `secret.t` alone."""

    guarded: Guarded
    http: httpx.Client

    def reads(self, table: str) -> bool:
        """Whether the reader gets it; else it does not exist."""
        status = self.http.get(f"{TABLES}/{table}").status_code
        assert status in {200, 404}
        return status == 200


@pytest.fixture
def names(opened_sqlite: OpenDatabase, tmp_path: Path) -> Iterator[Names]:
    server = guarded(opened_sqlite.database, tmp_path)
    server.services.jobs.cancel(JobId(server.job_id))
    reader = server.token("reader", Grant(on("secret", table="t"), Privilege.READ))
    with listening(server.app) as url, client_of(url, reader) as http:
        yield Names(server, http)


def test_a_table_made_anew_under_the_name_has_the_grants_of_the_name(names: Names) -> None:
    """As in SQL for whoever may read `secret.t`: the next one is `secret.t` as well. docs/security.md says so."""
    entry = names.guarded.services.drop(LAKE, SECRET)
    assert not names.reads("secret.t")
    assert names.http.get(f"{DROPPED}/{entry.id}").status_code == 200
    names.guarded.services.tables.create(LAKE, definition(SECRET))
    assert names.reads("secret.t")


def test_a_renamed_table_leaves_its_grants_behind(names: Names) -> None:
    tables = names.guarded.services.tables
    tables.rename(LAKE, SECRET, MOVED)
    assert (names.reads("secret.t"), names.reads("secret.moved")) == (False, False)
    tables.rename(LAKE, MOVED, SECRET)
    assert names.reads("secret.t")


def test_what_comes_back_has_the_grants_of_the_name_that_it_comes_back_under(names: Names) -> None:
    services = names.guarded.services
    services.undrops.undrop(LAKE, services.drop(LAKE, SECRET).id)
    assert names.reads("secret.t")
    services.undrops.undrop(LAKE, services.drop(LAKE, SECRET).id, to=MOVED)
    assert (names.reads("secret.t"), names.reads("secret.moved")) == (False, False)


def test_nobody_brings_a_table_back_under_a_name_in_order_to_read_it(names: Names) -> None:
    """Who reads all of `open` and may create there, but not read `secret`, could else have `secret.gone` there."""
    powers = [Grant(on("open"), privilege) for privilege in (Privilege.READ, Privilege.CREATE, Privilege.DROP)]
    mover = names.guarded.token("mover", *powers)
    gone = names.guarded.entry_id
    answer = names.http.post(
        f"{DROPPED}/{gone}/undrop", json={"to": "open.gone"}, headers={"Authorization": f"Bearer {mover.text}"}
    )
    assert answer.status_code == 404
