"""Expiry, and each way in which others have lost files by it; on a real server by real Spark."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from firn.protocol.leases import Outcome, Result
from optimizer.deletion import delete_unneeded
from optimizer.errors import JobError, Refused
from optimizer.job_run import JobRun
from optimizer.jobs import JOBS
from optimizer.lease_keeper import LeaseKeeper
from optimizer.spark import open_job_session
from optimizer.worker import Worker
from server.service.locations.ownership import SHARED
from tests.integration.optimizer.overwritten_tables import AT_ONCE, _local, files_of, lost, overwritten, plain, sql
from tests.keyed_tables import KeyedTable, change_row
from tests.spark_fixtures import RunningServer

pytestmark = pytest.mark.spark


def keyed(server: RunningServer, worker: Worker) -> KeyedTable:
    return KeyedTable(server, worker, "id BIGINT, v STRING", "", **AT_ONCE, **{"firn.primary-key": "id"})


def interrupted(table: KeyedTable, meanwhile: Callable[[], None]) -> Result:
    """An expiry that is planned, and carried out after something else has happened."""
    worker = table.worker
    table.ask("expire")
    lease = worker.api.take_lease(worker.api.register(**worker.about).id, ["expire"])
    assert lease is not None
    assert lease.task["tables"]
    meanwhile()
    with (
        open_job_session(worker.spark.session, worker.api, lease) as session,
        LeaseKeeper(worker.api, lease, stopping=threading.Event()) as hold,
    ):
        try:
            result = JOBS["expire"].run(JobRun(worker.api, lease, hold, session))
        except JobError as error:
            result = Result(outcome=Outcome.REFUSED, error=str(error))
    worker.api.report(lease, result, [])
    return result


def cloned(table: KeyedTable) -> str:
    """Another table over the same files, as a copy of a table's metadata made it before there was a location rule."""
    shown = table.server.get(f"catalogs/lake/tables/{table.short}")["stores"]["table"]
    here = _local(shown["metadata_location"])
    moved = f"{shown['location'].rstrip('/')}-clone"
    copy = {**json.loads(here.read_text(encoding="utf-8")), "location": moved}
    there = _local(moved) / "metadata" / "00000-clone.metadata.json"
    there.parent.mkdir(parents=True)
    there.write_text(json.dumps(copy), encoding="utf-8")
    other = KeyedTable(table.server, table.worker, "id BIGINT, v STRING", "")
    change_row(other, location=moved, metadata_location=there.as_uri(), former_locations=f'["{shown["location"]}"]')
    return other.short


def test_files_that_only_a_branch_or_a_tag_reaches_stay(server: RunningServer, worker: Worker) -> None:
    """Iceberg's incremental cleanup has deleted them: it looked at main alone."""
    table = plain(server, worker)
    overwritten(table, 1)
    sql(table, "ALTER TABLE TABLE_ CREATE TAG closed")
    overwritten(table, 2)
    sql(table, "ALTER TABLE TABLE_ CREATE BRANCH side")
    sql(table, "INSERT INTO TABLE_.branch_side VALUES (20, 'side')")
    sql(table, "DELETE FROM TABLE_.branch_side WHERE id = 2")
    overwritten(table, 3, 4)
    job = table.run("expire")
    assert (job["status"], job["result"]["expired_snapshots"]) == ("succeeded", 3)
    assert job["result"]["freed_bytes"] > 0
    assert server.rows(f"SELECT id FROM {table.name}.tag_closed") == [(1,)]
    assert server.rows(f"SELECT id FROM {table.name}.branch_side") == [(20,)]
    assert lost(files_of(server, table.name)) == set()


def test_files_of_a_staged_snapshot_that_was_published_stay(server: RunningServer, worker: Worker) -> None:
    """The staged snapshot expires, and main has taken over its files."""
    table = plain(server, worker, **{"write.wap.enabled": "true"})
    overwritten(table, 1)
    server.spark.conf.set("spark.wap.id", "audit-1")
    try:
        sql(table, "INSERT INTO TABLE_ VALUES (2, 'staged')")
    finally:
        server.spark.conf.unset("spark.wap.id")
    staged = server.rows(f"SELECT snapshot_id FROM {table.name}.snapshots WHERE summary['wap.id'] = 'audit-1'")
    sql(table, "INSERT INTO TABLE_ VALUES (3, 'direct')")
    server.spark.sql(f"CALL lake.system.cherrypick_snapshot('{table.short}', {staged[0][0]})")
    table.run("expire")
    assert staged[0] not in server.rows(f"SELECT snapshot_id FROM {table.name}.snapshots")
    assert table.rows() == [(1, "v1"), (2, "staged"), (3, "direct")]
    assert lost(files_of(server, table.name)) == set()


def test_where_two_tables_share_a_location_no_file_is_deleted(server: RunningServer, worker: Worker) -> None:
    """Peers' cleaners took what the other table needs for garbage."""
    table = plain(server, worker)
    overwritten(table, 1, 2)
    other = cloned(table)
    overwritten(table, 3)
    job = table.run("expire")
    assert job["result"]["expired_snapshots"] == 2
    assert (job["result"]["deleted_files"], job["result"]["keep_reason"]) == (0, SHARED)
    assert server.rows(f"SELECT id FROM lake.{other}") == [(2,)]
    assert lost(files_of(server, f"lake.{other}")) == set()


def test_a_table_that_comes_to_the_place_after_the_plan_keeps_its_files(server: RunningServer, worker: Worker) -> None:
    table = plain(server, worker)
    overwritten(table, 1, 2, 3)
    others: list[str] = []
    result = interrupted(table, lambda: others.append(cloned(table)))
    assert result.result["deleted_files"] == 0
    assert lost(files_of(server, f"lake.{others[0]}")) == set()


@pytest.mark.parametrize("make", [plain, keyed])
def test_a_tag_made_between_plan_and_commit_keeps_its_snapshot(
    server: RunningServer, worker: Worker, make: Callable[[RunningServer, Worker], KeyedTable]
) -> None:
    """Java's remove-snapshots carries no requirement that would say so: the tag would vanish with its snapshot."""
    table = make(server, worker)
    name = table.name if make is plain else f"{table.name}.base"
    for value in (1, 2):
        server.spark.sql(f"INSERT INTO {name} VALUES ({value}, 'a')")
    first = server.spark.sql(f"SELECT snapshot_id FROM {name}.snapshots ORDER BY committed_at").collect()[0][0]
    result = interrupted(
        table, lambda: void(server.spark.sql(f"ALTER TABLE {name} CREATE TAG late AS OF VERSION {first}"))
    )
    assert result.outcome == "refused"
    assert server.rows(f"SELECT id FROM {name}.tag_late") == [(1,)]
    assert lost(files_of(server, name)) == set()


def test_a_file_that_is_named_in_two_ways_is_one_file(server: RunningServer, worker: Worker) -> None:
    """Peers compared s3a with s3, and file:/ with file:///, as text, and deleted what was live under the other."""
    table = plain(server, worker)
    overwritten(table, 1)
    jvm: Any = server.spark._jvm
    java = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(server.spark._jsparkSession, table.name)
    file = java.currentSnapshot().addedDataFiles(java.io()).iterator().next()
    spelled = "file:/" + str(file.location()).removeprefix("file:").lstrip("/")
    spelled = spelled if spelled != str(file.location()) else spelled.replace("file:/", "file:///")
    again = jvm.org.apache.iceberg.DataFiles.builder(java.spec()).copy(file).withPath(spelled).build()
    java.newOverwrite().deleteFile(file).addFile(again).commit()
    server.spark.sql(f"REFRESH TABLE {table.name}")
    assert table.run("expire")["result"]["expired_snapshots"] == 1
    assert table.rows() == [(1, "v1")]
    assert lost(files_of(server, table.name)) == set()


def test_of_a_table_whose_owner_says_that_its_files_are_shared_none_is_deleted(
    server: RunningServer, worker: Worker
) -> None:
    table = plain(server, worker, **{"gc.enabled": "false"})
    overwritten(table, 1, 2)
    before = files_of(server, table.name)
    job = table.run("expire")
    assert (job["result"]["expired_snapshots"], job["result"]["deleted_files"]) == (1, 0)
    assert lost(before) == set()


def test_a_tag_goes_when_its_time_is_over_and_its_files_with_it(server: RunningServer, worker: Worker) -> None:
    table = plain(server, worker)
    overwritten(table, 1)
    sql(table, "ALTER TABLE TABLE_ CREATE TAG brief RETAIN 1 DAYS")
    loaded = server.http.get(_path(table)).json()["metadata"]
    ref = {**loaded["refs"]["brief"], "max-ref-age-ms": 1}
    change = {"requirements": [], "updates": [{"action": "set-snapshot-ref", "ref-name": "brief", **ref}]}
    assert server.http.post(_path(table), json=change).is_success
    overwritten(table, 2)
    result = table.run("expire")["result"]
    assert (result["dropped_refs"], result["expired_snapshots"]) == (1, 1)
    assert server.rows(f"SELECT name FROM {table.name}.refs") == [("main",)]


def test_nothing_is_expired_while_another_job_reads_the_table(server: RunningServer, worker: Worker) -> None:
    """A snapshot that a running job reads was expired under it: one job at a time is active on a table."""
    table = keyed(server, worker)
    table.upsert((1, "a"))
    job_id = table.ask("merge")
    lease = worker.api.take_lease(worker.api.register(**worker.about).id, ["merge"])
    assert lease is not None
    answer = server.http.post(f"/api/v1/catalogs/lake/tables/{table.short}/jobs", json={"kind": "expire"})
    assert (answer.status_code, "active" in answer.text or "running" in answer.text) == (409, True)
    server.post(f"jobs/{job_id}/cancel")


def void(_value: object) -> None:
    """Forget a result."""


def _path(table: KeyedTable) -> str:
    namespace, name = table.short.split(".")
    return f"/iceberg/v1/lake/namespaces/{namespace}/tables/{name}"


def test_a_job_deletes_in_its_own_tables_alone(server: RunningServer, worker: Worker) -> None:
    table, other = plain(server, worker), plain(server, worker)
    overwritten(table, 1, 2)
    overwritten(other, 1)
    table.ask("expire")
    lease = worker.api.take_lease(worker.api.register(**worker.about).id, ["expire"])
    assert lease is not None
    with (
        open_job_session(worker.spark.session, worker.api, lease) as session,
        LeaseKeeper(worker.api, lease, stopping=threading.Event()) as hold,
        pytest.raises(Refused, match="no table of this job"),
    ):
        delete_unneeded(JobRun(worker.api, lease, hold, session), other.short.split("."), {}, {})
    server.post(f"jobs/{lease.job_id}/cancel")
