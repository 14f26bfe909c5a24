"""Time to live, tags and statistics, on a real server by real Spark."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from firn.protocol.leases import Result
from firn.spark.local_frames import create_local_frame
from optimizer.job_run import JobRun
from optimizer.jobs import JOBS
from optimizer.lease_keeper import LeaseKeeper
from optimizer.spark import open_job_session
from optimizer.worker import Worker
from tests.integration.keyed.appends import Store
from tests.integration.optimizer.dated_tables import a_table, append_an_hour_ago, ids, keyed, row
from tests.keyed_tables import KeyedTable
from tests.spark_fixtures import RunningServer

pytestmark = pytest.mark.spark


def insert(table: KeyedTable, *rows: tuple[Any, ...], into: str = "") -> None:
    create_local_frame(table.server.spark, rows, table.columns).coalesce(1).writeTo(f"{table.name}{into}").append()


def plan(table: KeyedTable, kind: str) -> dict[str, Any]:
    return table.server.post(f"catalogs/lake/tables/{table.short}/jobs?dry_run=true", {"kind": kind})


def touched(planned: dict[str, Any]) -> dict[str, int]:
    return {affected["items"]: affected["count"] for affected in planned["affected"]}


def operations(table: KeyedTable, part: str = "") -> list[str]:
    operations = table.server.spark.sql(f"SELECT operation FROM {table.name}{part}.snapshots ORDER BY committed_at")
    return [operation for (operation,) in operations.collect()]


@pytest.mark.parametrize(("field", "partition"), [("day", "day"), ("day", "months(day)"), ("at", "days(at)")])
def test_old_partitions_go_whole_and_no_file_is_opened(
    server: RunningServer, worker: Worker, field: str, partition: str
) -> None:
    table = a_table(server, worker, partition, **{"firn.ttl.field": field})
    insert(table, row(1, 0), row(2, 5), row(3, 200), row(4, None), row(5, 201))
    before = {Path(path) for (path,) in server.rows(f"SELECT file_path FROM {table.name}.files")}
    planned = plan(table, "ttl")
    assert (planned["exact"], touched(planned)["rows"]) == (True, 2)
    job = table.run("ttl")
    assert (job["status"], job["result"]["deleted_rows"]) == ("succeeded", 2), job
    assert ids(table) == [1, 2, 4]
    assert operations(table)[-1] == "delete"
    assert {Path(path) for (path,) in server.rows(f"SELECT file_path FROM {table.name}.files")} < before
    assert job["result"]["gained"]["files_after"] == planned["gain"]["files_after"]
    assert table.run("ttl")["result"].keys() == {"cutoff", "whole_partitions"}


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_where_no_partition_tells_the_time_rows_go_one_by_one(server: RunningServer, worker: Worker, mode: str) -> None:
    table = a_table(server, worker, **{"firn.ttl.field": "at", "write.delete.mode": mode, "format-version": "2"})
    insert(table, row(1, 0), row(2, 9), row(3, 11), row(4, None))
    planned = plan(table, "ttl")
    assert (planned["exact"], touched(planned)["files that lose some rows"]) == (False, 1)
    job = table.run("ttl")
    assert (ids(table), job["result"]["deleted_rows"]) == ([1, 2, 4], 1)
    signed = server.rows(f"SELECT count(*) FROM {table.name}.snapshots WHERE summary['firn.job-id'] = '{job['id']}'")
    assert signed == [(1,)]


@pytest.mark.parametrize("partition", ["day", ""])
def test_whole_files_go_where_late_changes_are_judged_by_a_sequence_field(
    server: RunningServer, worker: Worker, partition: str
) -> None:
    """Spark's delete of whole files did not say which changes it had looked at, so the server refused each of them."""
    table = keyed(server, worker, partition, **{"firn.sequence-field": "at"})
    table.upsert(row(1, 20))
    table.run("merge", mode="vectors")
    table.upsert(row(2, 1))
    table.run("merge", mode="vectors")
    job = table.run("ttl")
    assert (job["status"], job["result"]["merged"], job["result"]["deleted_rows"]) == ("succeeded", False, 1), job
    assert ids(table) == [2]
    assert operations(table, ".base")[-1] == "delete"


def test_what_is_pending_stays_pending_when_no_old_row_is_concerned(server: RunningServer, worker: Worker) -> None:
    table = keyed(server, worker, "day")
    table.upsert(row(1, 20), row(2, 30), row(3, 1))
    table.run("merge")
    table.upsert(row(4, 2), row(3, 0, "new"))
    job = table.run("ttl")
    assert (job["status"], job["result"]["merged"]) == ("succeeded", False), job
    assert ids(table) == [3, 4]
    assert table.server.get(f"catalogs/lake/tables/{table.short}")["pending_rows"] == 2
    table.run("merge")
    assert ids(table) == [3, 4]


def test_pending_changes_to_old_rows_are_merged_without_them(server: RunningServer, worker: Worker) -> None:
    """Deleted from base alone, an old row would come back with the next merge, or a young one would go."""
    table = keyed(server, worker)
    table.upsert(row(1, 20), row(2, 20), row(3, 1), row(4, 20))
    table.run("merge")
    table.upsert(row(1, 0, "young again"), row(3, 40, "grown old"), row(5, 15, "born old"), row(6, 0))
    table.delete((4,), columns="id BIGINT")
    job = table.run("ttl")
    assert (job["status"], job["result"]["merged"]) == ("succeeded", True), job
    assert ids(table) == ids(table, ".base") == [1, 6]
    table.run("merge")
    assert ids(table) == [1, 6]


def test_old_rows_of_a_table_that_was_never_merged_go_too(server: RunningServer, worker: Worker) -> None:
    table = keyed(server, worker, "day")
    table.upsert(row(1, 20), row(2, 0))
    assert table.run("ttl")["status"] == "succeeded"
    assert ids(table) == ids(table, ".base") == [2]


def test_changes_that_come_while_the_job_runs_win(server: RunningServer, worker: Worker) -> None:
    table = keyed(server, worker)
    table.upsert(row(1, 20), row(2, 20), row(3, 0))
    table.run("merge")
    for pending in ((), (row(3, 30),)):
        if pending:
            table.upsert(*pending)
        table.ask("ttl")
        lease = worker.api.take_lease(worker.api.register(**worker.about).id, ["ttl"])
        assert lease is not None
        table.upsert(row(1, 0, "came back"))
        _carry_out(worker, lease)
        assert ids(table) == ([1, 3] if not pending else [1])
    table.run("merge")
    assert [(key, value) for key, _, _, value in table.rows()] == [(1, "came back")]


def _carry_out(worker: Worker, lease: Any) -> Result:
    with (
        open_job_session(worker.spark.session, worker.api, lease) as session,
        LeaseKeeper(worker.api, lease, stopping=threading.Event()) as hold,
    ):
        result = JOBS[lease.kind].run(JobRun(worker.api, lease, hold, session))
    worker.api.report(lease, result, [])
    return result


def test_a_time_to_live_that_fits_no_column_is_refused_when_it_is_asked_for(
    server: RunningServer, worker: Worker
) -> None:
    table = a_table(server, worker, **{"firn.ttl.field": "v"})
    for path in ("jobs", "jobs?dry_run=true"):
        answer = server.http.post(f"/api/v1/catalogs/lake/tables/{table.short}/{path}", json={"kind": "ttl"})
        assert (answer.status_code, "its type is string" in answer.text) == (400, True)


@pytest.mark.parametrize("properties", [{}, {"firn.primary-key": "id"}], ids=["plain", "keyed"])
def test_the_head_is_tagged_once_and_reads_as_it_was(
    server: RunningServer, worker: Worker, properties: dict[str, str]
) -> None:
    tag_properties = {**properties, "firn.tags.schedule": "* * * * *"}
    table = KeyedTable(server, worker, "id BIGINT, v STRING", "", **tag_properties)
    name = f"{table.name}.base" if properties else table.name
    append_an_hour_ago(Store(server.http, tuple(name.split(".")[1:])))
    planned = plan(table, "tags")
    assert planned["action"] == "make 1 tag and drop 0"
    job = table.run("tags")
    assert (job["status"], len(job["result"]["made"])) == ("succeeded", 1), job
    (tag,) = job["result"]["made"]
    server.spark.sql(f"DELETE FROM {name} WHERE id = 1")
    assert server.rows(f"SELECT id FROM {name} VERSION AS OF '{tag}'") == [(1,)]
    assert table.run("tags")["status"] == "succeeded"


def test_distinct_values_are_counted_once_per_head_and_go_with_its_snapshot(
    server: RunningServer, worker: Worker
) -> None:
    table = a_table(
        server,
        worker,
        **{"firn.statistics.columns": "v, id", "firn.expire.max-age": "0 s", "firn.expire.min-snapshots": "1"},
    )
    insert(table, *(row(key, 0, f"v{key % 3}") for key in range(30)))
    assert touched(plan(table, "statistics"))["columns"] == 2
    job = table.run("statistics")
    assert job["status"] == "succeeded", job
    file = Path(job["result"]["file"].removeprefix("file:"))
    path = f"/iceberg/v1/lake/namespaces/db/tables/{table.short.split('.')[1]}"
    (statistics,) = server.http.get(path).json()["metadata"]["statistics"]
    counts = {blob["fields"][0]: blob["properties"]["ndv"] for blob in statistics["blob-metadata"]}
    assert (counts, file.is_file()) == ({1: "30", 4: "3"}, True)
    assert table.run("statistics")["result"]["columns"] == []
    insert(table, row(99, 0))
    assert table.run("statistics")["result"]["columns"] == ["id", "v"]
    planned = plan(table, "expire")
    result = table.run("expire")["result"]
    assert (result["expired_snapshots"], file.exists()) == (1, False)
    assert (planned["gain"]["freed_files"], planned["exact"]) == (result["deleted_files"], True)
    (left,) = server.http.get(path).json()["metadata"]["statistics"]
    assert Path(left["statistics-path"].removeprefix("file:")).is_file()
