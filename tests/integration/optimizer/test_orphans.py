"""Orphans are found by real Spark, and go and come back by a real server; every row stays readable."""

from __future__ import annotations

import pytest

from optimizer.worker import Worker
from tests.integration.optimizer.stray_files import age, location_of, stray
from tests.keyed_tables import KeyedTable
from tests.spark_fixtures import RunningServer

pytestmark = pytest.mark.spark


def test_orphans_of_a_partitioned_table_with_a_branch_are_set_aside_and_come_back(
    server: RunningServer, worker: Worker
) -> None:
    table = KeyedTable(server, worker, "id BIGINT, day STRING", "day", **{"format-version": "2"})
    for number in range(3):
        server.spark.sql(f"INSERT INTO {table.name} VALUES ({number}, 'a b'), ({number}, '50% ü')")
    server.spark.sql(f"ALTER TABLE {table.name} CREATE BRANCH audit")
    server.spark.sql(f"INSERT INTO {table.name}.branch_audit VALUES (9, 'only here')")
    before, branch = table.rows(), table.rows(" VERSION AS OF 'audit'")
    place = location_of(server, table, "table")
    needed = age(place)
    orphans = [stray(place, name) for name in ("data/x.parquet", "data/day=a+b/50%25 ü.parquet", "metadata/m0.avro")]
    young = place / "data" / "young.parquet"
    young.write_bytes(b"still being written")

    dry = server.get(f"jobs/{run(table, 'remove-orphans', dry_run=True)}")["result"]
    assert (dry["orphan_files"], dry["dry_run"], len(dry["orphans"])) == (3, True, 3)
    assert all(path.exists() for path in orphans)

    job_id = run(table, "remove-orphans")
    job = server.get(f"jobs/{job_id}")
    assert (job["status"], job["result"]["orphan_files"]) == ("succeeded", 3), job
    assert not any(path.exists() for path in orphans)
    assert all(path.exists() for path in (*needed, young))
    (batch,) = server.get(f"jobs/{job_id}/deleted")["items"]
    assert {file["path"].removeprefix("file:") for file in batch["files"]} == {str(path) for path in orphans}
    assert batch["state"] == "aside"
    assert server.get(f"catalogs/lake/tables/{table.short}/quarantine")["items"] == [batch]
    assert (table.rows(), table.rows(" VERSION AS OF 'audit'")) == (before, branch)

    server.post(f"catalogs/lake/tables/{table.short}/quarantine/restore", {"job_id": job_id})
    assert [path.read_bytes().decode() for path in orphans] == [
        f"rows of {path.relative_to(place)}" for path in orphans
    ]
    assert server.get(f"jobs/{run(table, 'remove-orphans')}")["result"]["orphan_files"] == 0


def test_pending_changes_of_a_keyed_table_stay_and_orphans_of_both_stores_and_among_images_go(
    server: RunningServer, worker: Worker
) -> None:
    table = KeyedTable(server, worker, "id BIGINT, v STRING", "", **{"firn.primary-key": "id"})
    table.upsert((1, "a"), (2, "b"))
    assert table.run("merge", mode="rewrite")["status"] == "succeeded"
    table.upsert((1, "c"))
    before = table.rows()
    places = [location_of(server, table, store) for store in ("base", "change")]
    images = places[0].parent / "merged"
    needed = {path for place in (*places, images) for path in age(place)}
    assert any(path.parent == images for path in needed)
    orphans = [stray(place, "data/x.parquet") for place in places]
    orphans.append(stray(images, "f3b0a7de-6d0c-4b6c-9a55-0f4f3cdf2f0e-deletes.parquet"))
    job = server.get(f"jobs/{run(table, 'remove-orphans')}")
    assert job["result"]["orphan_files"] == 3, job
    assert not any(path.exists() for path in orphans)
    assert all(path.exists() for path in needed)
    assert table.rows() == before


def test_a_shared_location_ends_the_job_with_the_reason(server: RunningServer, worker: Worker) -> None:
    table = KeyedTable(server, worker, "id BIGINT, v STRING", "", **{"format-version": "2"})
    server.spark.sql(f"INSERT INTO {table.name} VALUES (1, 'a')")
    place = location_of(server, table, "table")
    orphan, foreign = stray(place, "data/x.parquet"), stray(place, "data/theirs/metadata/v7.metadata.json")
    foreign.write_text('{"table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"}')
    job = server.get(f"jobs/{run(table, 'remove-orphans')}")
    assert job["status"] == "failed"
    assert "its directory holds the metadata of another table" in job["error"]
    assert orphan.exists()


def run(table: KeyedTable, kind: str, *, dry_run: bool = False) -> str:
    """Ask for a job and run it; its id."""
    path = f"catalogs/lake/tables/{table.short}/jobs" + ("?dry_run=true" if dry_run else "")
    job_id = str(table.server.post(path, {"kind": kind})["id"])
    optimizer_id = table.worker.api.register(**table.worker.about).id
    assert table.worker.work_once(optimizer_id, wait_seconds=5)
    return job_id
