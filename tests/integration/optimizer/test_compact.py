"""Packing of change stores, delete files and manifests by real Spark: fewer files, and not a row changed."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from firn.spark.java import iterate
from optimizer.jobs.clean import remove_from_table
from optimizer.worker import Worker
from tests.keyed_tables import KeyedTable, a_worker
from tests.lossy_proxy import Forward, meddling_proxy
from tests.spark_fixtures import RunningServer

pytestmark = pytest.mark.spark
LINEAGE = "SELECT id, v, _op, _row_id, _last_updated_sequence_number FROM"


def keyed(server: RunningServer, worker: Worker, **more: str) -> KeyedTable:
    return KeyedTable(server, worker, "id BIGINT, v STRING", "", **{"firn.primary-key": "id", **more})


def change_files(table: KeyedTable) -> list[tuple[Any, ...]]:
    """Sequence number and rows of each live file."""
    entries = f"SELECT sequence_number, data_file.record_count FROM {table.name}.change.entries"
    return sorted(table.server.rows(f"{entries} WHERE status < 2"))


def test_packed_changes_keep_their_ids_their_numbers_and_what_the_table_says(
    server: RunningServer, worker: Worker
) -> None:
    table = keyed(server, worker)
    for number in range(4):
        table.upsert((1, f"a{number}"), (number + 10, "x"), writer="w", batch=str(number))
    table.delete((11,), columns="id BIGINT")
    before, lineage = table.rows(), server.rows(f"{LINEAGE} {table.name}.change")
    job = table.run("compact")
    assert (job["status"], job["error"]) == ("succeeded", None)
    assert job["result"]["added_files"] == 1
    assert table.rows() == before
    assert server.rows(f"{LINEAGE} {table.name}.change") == lineage
    assert change_files(table) == [(5, 9)]
    shown = server.get(f"catalogs/lake/tables/{table.short}")
    assert (shown["pending_rows"], shown["watermark"]) == (9, 0)
    assert table.upsert((1, "again"), writer="w", batch="2"), "a batch that was packed is forgotten"
    assert table.run("compact")["result"]["packed_files"] == 0
    table.upsert((1, "later"))
    assert table.run("merge")["status"] == "succeeded"
    assert table.rows() == table.rows(".base") == [(1, "later"), (10, "x"), (12, "x"), (13, "x")]
    assert change_files(table) == []


def test_merged_and_pending_changes_are_not_packed_together(server: RunningServer, worker: Worker) -> None:
    """With a sequence field merged deletes stay, and keep their place below the watermark, where a clean looks."""
    table = keyed(server, worker, **{"firn.sequence-field": "v", "firn.tombstone.max-age": "7 d"})
    for number in range(3):
        table.upsert((number, "5"))
        table.delete((number, "7"), columns="id BIGINT, v STRING")
        assert table.run("merge")["status"] == "succeeded"
    for number in range(3):
        table.upsert((number, str(6 + number)))
    before, lineage = table.rows(), server.rows(f"{LINEAGE} {table.name}.change")
    watermark = server.get(f"catalogs/lake/tables/{table.short}")["watermark"]
    job = table.run("compact")
    assert (job["status"], job["result"]["packed_files"], job["result"]["added_files"]) == ("succeeded", 6, 2)
    (merged, _), (pending, _) = change_files(table)
    assert merged <= watermark < pending
    assert table.rows() == before == [(1, "7"), (2, "8")]
    assert server.rows(f"{LINEAGE} {table.name}.change") == lineage
    server.http.patch(
        f"/api/v1/catalogs/lake/tables/{table.short}/properties", json={"set": {"firn.tombstone.max-age": "0 s"}}
    )
    assert table.run("merge")["result"]["cleaned_files"] == 2
    assert (table.rows(), change_files(table)) == (before, [])


def test_position_deletes_are_packed(server: RunningServer, worker: Worker) -> None:
    properties = {"format-version": "2", "write.delete.mode": "merge-on-read", "write.delete.granularity": "partition"}
    table = KeyedTable(server, worker, "id BIGINT, v STRING", "", **properties)
    server.spark.sql(f"INSERT INTO {table.name} SELECT id, 'x' FROM range(10)")
    for number in range(3):
        server.spark.sql(f"DELETE FROM {table.name} WHERE id = {number}")
    before = table.rows()
    job = table.run("rewrite-deletes")
    assert (job["status"], job["error"]) == ("succeeded", None)
    assert (job["result"]["gained"]["deletes_before"], job["result"]["gained"]["deletes_after"]) == (3, 1)
    assert table.rows() == before
    assert table.run("rewrite-deletes")["result"]["removed_delete_files"] == 0


def test_position_deletes_of_two_specs_are_packed_apart(server: RunningServer, worker: Worker) -> None:
    """To Iceberg's action rows without p are of one partition in both specs, and it refuses to pack the two."""
    properties = {"format-version": "2", "write.delete.mode": "merge-on-read", "write.delete.granularity": "partition"}
    table = KeyedTable(server, worker, "id BIGINT, p STRING", "p", **properties)
    for start, spec in ((0, "DROP"), (100, "ADD")):
        rows = f"SELECT {start} + id, if(id % 2 = 0, 'a', NULL) FROM range(10)"
        server.spark.sql(f"INSERT INTO {table.name} {rows}")
        for number in range(6):
            server.spark.sql(f"DELETE FROM {table.name} WHERE id = {start + number}")
        server.spark.sql(f"ALTER TABLE {table.name} {spec} PARTITION FIELD p")
    before = table.rows()
    job = table.run("rewrite-deletes")
    assert (job["status"], job["error"]) == ("succeeded", None)
    assert table.rows() == before
    left = f"SELECT spec_id, partition.p, count(*) FROM {table.name}.delete_files GROUP BY ALL"
    assert server.rows(left) == [(0, "a", 1), (0, None, 3), (1, None, 1)]


def test_deletes_that_apply_to_nothing_are_dropped(server: RunningServer, worker: Worker) -> None:
    """A deletion vector whose data file has gone: Iceberg's own writers take it along, others may leave it."""
    properties = {"format-version": "3", "write.delete.mode": "merge-on-read"}
    table = KeyedTable(server, worker, "id BIGINT, p STRING", "p", **properties)
    for part in "ab":
        server.spark.sql(f"INSERT INTO {table.name} SELECT /*+ REPARTITION(1) */ id, '{part}' FROM range(10)")
    server.spark.sql(f"DELETE FROM {table.name} WHERE id = 1")
    ((gone,),) = server.rows(f"SELECT file_path FROM {table.name}.data_files WHERE partition.p = 'a'")
    jvm: Any = server.spark._jvm
    loaded = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(server.spark._jsparkSession, table.name)
    loaded.refresh()
    (vector,) = [
        task.deletes().get(0) for task in iterate(loaded.newScan().planFiles()) if task.file().location() == gone
    ]
    remove_from_table(jvm, loaded, [gone], {})
    loaded.newRowDelta().validateFromSnapshot(loaded.currentSnapshot().snapshotId()).addDeletes(vector).commit()
    assert vectors(table) == ["a", "b"]
    before = table.rows()
    job = table.run("rewrite-deletes")
    assert (job["status"], job["error"], job["result"]["dangling_delete_files"]) == ("succeeded", None, 1)
    assert vectors(table) == ["b"]
    assert table.rows() == before == [(number, "b") for number in range(10) if number != 1]
    assert table.run("rewrite-deletes")["result"]["dangling_delete_files"] == 0


@pytest.mark.parametrize("number", [1, 2])
def test_a_pack_that_is_not_committed_leaves_no_file(server: RunningServer, worker: Worker, number: int) -> None:
    """The server takes the job away just before its commit, when it is told of it for the first or the second time."""
    table = keyed(server, worker)
    for row in range(3):
        table.upsert((row, "x"))
    notices = count(1)

    def meddle(_method: str, path: str, forward: Forward) -> httpx.Response | None:
        if path.endswith("/committing") and next(notices) == number:
            return httpx.Response(403, json={"error": {"code": "lease_lost", "message": "taken away"}})
        return forward()

    with meddling_proxy(server.url, meddle) as proxy:
        job_id = table.ask("compact")
        away = a_worker(proxy.url)
        assert away.work_once(away.api.register(**away.about).id, wait_seconds=5)
    named = {path for (path,) in server.rows(f"SELECT file_path FROM {table.name}.change.all_files")}
    (file, *_) = named
    lying = {f"file:{path}" for path in Path(file.removeprefix("file:")).parent.rglob("*.parquet")}
    assert lying == named
    server.http.post(f"/api/v1/jobs/{job_id}/cancel")


def vectors(table: KeyedTable) -> list[str]:
    """The partitions of its delete files."""
    return [part for (part,) in table.server.rows(f"SELECT partition.p FROM {table.name}.delete_files")]


def test_manifests_are_rewritten_into_fewer(server: RunningServer, worker: Worker) -> None:
    more = {"commit.manifest-merge.enabled": "false"}
    table = keyed(server, worker, **more)
    for number in range(3):
        table.upsert((number, "x"))
        server.spark.sql(f"INSERT INTO {table.name}.base VALUES ({number + 10}, 'direct')")
    before, lineage = table.rows(), server.rows(f"{LINEAGE} {table.name}.change")
    job = table.run("rewrite-manifests")
    assert (job["status"], job["error"]) == ("succeeded", None)
    assert (job["result"]["manifests_before"], job["result"]["manifests_after"]) == (6, 2)
    assert table.rows() == before
    assert server.rows(f"{LINEAGE} {table.name}.change") == lineage
    assert table.run("rewrite-manifests")["result"]["rewritten_manifests"] == 0
    assert table.run("merge")["status"] == "succeeded"
    assert table.rows() == table.rows(".base") == before
