"""A migration for a caller who may read and create in one database only: nothing tells of the others."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from catalog.access.privileges import Grant, Privilege
from catalog.hive.table_index import IndexedBlocker, IndexedTable, TableFacts
from catalog.hive.wave import Wave
from catalog.jobs.operation import BatchId
from firn.protocol.operations import OperationKind
from tests.databases import OpenDatabase
from tests.factories import LAKE, an_operation
from tests.server.guarded import client_of, guarded, on
from tests.server.listening import listening

HIVE = "/api/v1/catalogs/lake/hive"
TABLE = IndexedTable(
    catalog=LAKE,
    database="open",
    name="orders",
    format="parquet",
    location="file:/open/orders",
    columns=2,
    partition_columns=(),
    ddl_time=1,
    blockers=(),
    seen_at=datetime(2026, 11, 28, tzinfo=UTC),
    facts=TableFacts(bytes=7),
)


def test_counts_exports_and_waves_tell_of_no_other_database(opened_sqlite: OpenDatabase, tmp_path: Path) -> None:
    server = guarded(opened_sqlite.database, tmp_path)
    blocked = (IndexedBlocker(code="view", message="it is a view", advice="leave it"),)
    hidden = replace(TABLE, database="secret", name="payroll", blockers=blocked)
    wave = Wave(
        batch=BatchId(an_operation().id),
        catalog=LAKE,
        name="payroll",
        kind=OperationKind.CHECK,
        selection={},
        tables=1,
        created_at=TABLE.seen_at,
    )
    with opened_sqlite.database.writing() as uow:
        uow.hive.replace(LAKE, "open", [TABLE])
        uow.hive.replace(LAKE, "secret", [hidden])
        uow.operations.add(an_operation(kind=OperationKind.CHECK, target="secret.payroll", batch=wave.batch))
        uow.waves.add(wave)
    own = server.token("own", Grant(on("open"), Privilege.READ), Grant(on("open"), Privilege.CREATE))
    with listening(server.app) as url, client_of(url, own) as http:
        counted = http.get(f"{HIVE}/migration").json()
        assert (counted["tables"], counted["bytes"], counted["blockers"]) == (1, 7, [])
        for query in ({}, {"search": "payroll"}, {"blocker": "view"}):
            assert "payroll" not in http.get(f"{HIVE}/migration", params=query).text
            assert "payroll" not in http.get(f"{HIVE}/migration/csv", params=query).text
            assert "payroll" not in http.get(HIVE, params=query | {"sort": "bytes"}).text
        assert http.get(f"{HIVE}/waves").json()["items"] == []
        for path in (f"{HIVE}/waves/{wave.batch}", f"{HIVE}/waves/{wave.batch}/csv"):
            assert http.get(path).status_code == 404
        for only in ({}, {"database": "secret"}, {"search": "orders"}):
            for dry_run in (True, False):
                refused = http.post(f"{HIVE}/upgrade", json={"filter": only, "dry_run": dry_run})
                assert refused.status_code in {403, 404}, (only, dry_run, refused.text)
        refused = http.post(f"{HIVE}/upgrade", json={"filter": {"database": "OPEN"}, "dry_run": True})
        assert refused.status_code == 400, "it may, but the lake has no metastore"
