"""Rewrites by real Spark: what they take, what they refuse, and what a conflict costs."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

import httpx
import pytest

from catalog.keyed.file_tasks import RewritePolicy, build_rewrite_task
from catalog.names import TableName
from firn.protocol.leases import Result
from optimizer.job_run import JobRun
from optimizer.jobs import JOBS
from optimizer.worker import Worker
from tests.integration.optimizer.plain_tables import check_readable, commits_of, files, insert, plain
from tests.keyed_tables import KeyedTable, a_worker
from tests.lossy_proxy import Forward, meddling_proxy
from tests.spark_fixtures import RunningServer

pytestmark = pytest.mark.spark
TINY = {"firn.rewrite.small-file-size": "100 B"}
"""Nothing is small: only what else there is to find is found."""


@pytest.mark.parametrize(
    ("order", "options"),
    [("v", {}), (None, {"sort_order": ["v"]})],
    ids=["the table's own order", "named columns"],
)
def test_a_sort_orders_rows_by(
    server: RunningServer, worker: Worker, order: str | None, options: dict[str, Any]
) -> None:
    table = plain(server, worker)
    if order is not None:
        server.spark.sql(f"ALTER TABLE {table.name} WRITE LOCALLY ORDERED BY {order}")
    insert(table, (1, "a", "4"), (2, "a", "2"))
    insert(table, (3, "a", "3"), (4, "a", "1"))
    before = table.rows()
    job = table.run("rewrite", strategy="sort", **options)
    assert (job["status"], job["error"]) == ("succeeded", None)
    lying = [row.v for row in server.spark.sql(f"SELECT v, _pos FROM {table.name} ORDER BY _pos").collect()]
    assert lying == ["1", "2", "3", "4"]
    assert table.rows() == before
    assert job["result"]["gained"] | {"bytes_before": 0, "bytes_after": 0} == {
        "files_before": 2,
        "files_after": 1,
        "bytes_before": 0,
        "bytes_after": 0,
        "deletes_before": 0,
        "deletes_after": 0,
    }
    assert job["result"]["gained"]["bytes_before"] == job["result"]["rewritten_bytes"]
    assert job["result"]["gained"]["bytes_after"] == job["result"]["added_bytes"]


def test_a_z_order_by_two_columns_keeps_the_rows(server: RunningServer, worker: Worker) -> None:
    table = plain(server, worker, **{"firn.rewrite.strategy": "zorder", "firn.rewrite.sort-order": "id, v"})
    insert(table, (1, "a", "4"), (2, "a", "2"))
    insert(table, (3, "a", "3"), (4, "a", "1"))
    before = table.rows()
    job = table.run("rewrite")
    assert (job["status"], job["result"]["rewritten_files"], job["result"]["added_files"]) == ("succeeded", 2, 1)
    assert table.rows() == before


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"strategy": "sort"}, "has no sort order: set one, or name columns in firn.rewrite.sort-order"),
        ({"strategy": "zorder"}, "has no sort order"),
        ({"strategy": "sort", "sort_order": ["id", "nope"]}, "has no column nope"),
        ({"strategy": "zorder", "sort_order": ["nope"]}, "has no column nope"),
        ({"where": "nope = 1"}, "firn.rewrite.filter 'nope = 1': [UNRESOLVED_COLUMN"),
        ({"where": "id >"}, "firn.rewrite.filter 'id >': [PARSE_SYNTAX_ERROR"),
        ({"where": "upper(v) = 'A'"}, "upper(v) = 'A'\": Cannot convert Spark filter"),
        ({"where": "date_format(v, 'x') = 'a'"}, "date_format(v, 'x') = 'a'\": Cannot translate"),
    ],
)
def test_what_the_table_does_not_know_is_refused_with_one_reason(
    server: RunningServer, worker: Worker, options: dict[str, Any], reason: str
) -> None:
    table = plain(server, worker)
    insert(table, (1, "a", "x"))
    insert(table, (2, "a", "y"))
    before = files(table)
    job = table.run("rewrite", **options)
    assert job["status"] == "failed"
    assert reason in job["error"]
    assert "\n" not in job["error"]
    assert files(table) == before


def test_a_filter_takes_only_files_that_may_match(server: RunningServer, worker: Worker) -> None:
    table = plain(server, worker, "p")
    for number in range(2):
        insert(table, (number, "a", "x"), (number, "b", "x"))
    kept = files(table, "partition.p = 'b'")
    assert table.run("rewrite", where="p = 'a'")["result"]["rewritten_files"] == 2
    assert (len(files(table, "partition.p = 'a'")), files(table, "partition.p = 'b'")) == (1, kept)


@pytest.mark.parametrize(("ratio", "rewritten"), [("0.5", 0), ("0.25", 1), ("0", 1)])
def test_a_file_that_has_lost_its_share_of_rows_is_written_anew(
    server: RunningServer, worker: Worker, ratio: str, rewritten: int
) -> None:
    more = {"firn.rewrite.max-delete-ratio": ratio, "write.delete.mode": "merge-on-read", **TINY}
    table = plain(server, worker, **more)
    insert(table, *[(number, "a", "x") for number in range(4)])
    server.spark.sql(f"DELETE FROM {table.name} WHERE id = 2")
    before = table.rows()
    job = table.run("rewrite")
    assert job["result"]["rewritten_files"] == rewritten
    assert job["result"]["removed_delete_files"] == rewritten
    assert job["result"]["gained"]["deletes_after"] == 1 - rewritten
    assert table.rows() == before


def test_equality_deletes_are_gone_from_files_of_any_size(server: RunningServer, worker: Worker) -> None:
    """Nothing says how many rows they take from which file, so that no share of a file's rows tells of them."""
    table = plain(server, worker, **TINY, **{"format-version": "2"})
    insert(table, *[(number, "a", "x") for number in range(4)])
    delete_by_id(table, 2)
    before = table.rows()
    assert before == [(0, "a", "x"), (1, "a", "x"), (3, "a", "x")]
    assert table.run("rewrite")["result"]["rewritten_files"] == 0

    def as_planned(work: JobRun) -> Result:
        """What a person asks for does not say so; what is planned because of deletes does."""
        task = RewritePolicy(apply_deletes=True, small_file_bytes=100)
        task_json = work.lease.task | {"apply_deletes": build_rewrite_task(TableName(("db",), "t"), task).apply_deletes}
        task_json["everything"] = False
        return JOBS["rewrite"].run(replace(work, lease=work.lease.model_copy(update={"task": task_json})))

    table.worker = replace(worker, jobs={"rewrite": replace(JOBS["rewrite"], run=as_planned)})
    job = table.run("rewrite", everything=True)  # or it would end at once: of what was asked for there is nothing to do
    assert (job["status"], job["result"]["rewritten_files"], job["result"]["gained"]["deletes_after"]) == (
        "succeeded",
        1,
        0,
    )
    assert table.rows() == before
    assert server.rows(f"SELECT * FROM {table.name}.delete_files") == []


def delete_by_id(table: KeyedTable, number: int) -> None:
    """An equality delete as Flink writes it: its file is a copy of the data file of a table of ids."""
    spark = table.server.spark
    ids = f"{table.name}_ids"
    spark.sql(f"CREATE TABLE {ids} (id BIGINT) USING iceberg")
    spark.sql(f"INSERT INTO {ids} VALUES ({number})")
    ((path, size),) = table.server.rows(f"SELECT file_path, file_size_in_bytes FROM {ids}.files")
    jvm: Any = spark._jvm
    loaded = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table.name)
    own = Path(str(loaded.location()).removeprefix("file://").removeprefix("file:")) / "data" / "ids.parquet"
    own.write_bytes(Path(path.removeprefix("file://").removeprefix("file:")).read_bytes())
    gateway: Any = spark.sparkContext._gateway
    by_id = gateway.new_array(jvm.int, 1)
    by_id[0] = loaded.schema().findField("id").fieldId()
    delete = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(loaded.spec()).ofEqualityDeletes(by_id)
    delete_file = (
        delete.withPath(f"file:{own}").withFormat("parquet").withFileSizeInBytes(size).withRecordCount(1).build()
    )
    loaded.newRowDelta().addDeletes(delete_file).commit()
    spark.sql(f"REFRESH TABLE {table.name}")


def test_a_bounded_job_of_several_groups_commits_each_alone(server: RunningServer, worker: Worker) -> None:
    table = plain(server, worker, "p", **{"firn.rewrite.max-job-size": "6 KiB"})
    for number in range(2):
        insert(table, *[(number, part, "x") for part in "abcdefgh"])
    before = table.rows()
    job = table.run("rewrite")
    done = job["result"]["groups_done"]
    assert 1 < done < 8
    assert (job["status"], job["result"]["groups_failed"]) == ("succeeded", 0)
    assert commits_of(table, job["id"]) == [("replace", "2")] * done
    assert table.rows() == before


def spoil(path: Path) -> None:
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.write_bytes(b"x" * path.stat().st_size)


@pytest.mark.parametrize("broken", ["a", "ab"])
def test_a_group_that_cannot_be_written_says_why(server: RunningServer, worker: Worker, broken: str) -> None:
    table = plain(server, worker, "p")
    for row in range(2):
        insert(table, *[(row, part, "x") for part in "abc"])
    for part in broken:
        path = Path(files(table, f"partition.p = '{part}'")[0].removeprefix("file:"))
        spoil(path)
    job = table.run("rewrite")
    done = 3 - len(broken)
    assert (job["status"], job["result"]["groups_done"], job["result"]["groups_failed"]) == (
        "succeeded",
        done,
        len(broken),
    )
    assert "is not a Parquet file" in job["result"]["failed_because"]
    assert len(commits_of(table, job["id"])) == done


def test_a_job_none_of_whose_groups_can_be_written_fails_with_the_reason(server: RunningServer, worker: Worker) -> None:
    table = plain(server, worker, "p")
    for row in range(2):
        insert(table, *[(row, part, "x") for part in "ab"])
    for name in files(table):
        path = Path(name.removeprefix("file:"))
        spoil(path)
    job = table.run("rewrite")
    assert job["status"] == "failed"
    assert "is not a Parquet file" in job["error"]


def test_a_job_takes_no_more_than_its_bound_and_the_next_ones_take_the_rest(
    server: RunningServer, worker: Worker
) -> None:
    table = plain(server, worker, "p", **{"firn.rewrite.max-job-size": "3 KiB"})
    for number in range(2):
        insert(table, *[(number, part, "x") for part in "abc"])
    before = table.rows()
    for left in (4, 2, 0):
        job = table.run("rewrite")
        assert (job["result"]["groups_done"], job["result"]["left_files"]) == (1, left)
    assert table.run("rewrite")["result"]["groups_done"] == 0
    assert len(files(table)) == 3
    assert table.rows() == before


def test_all_takes_files_of_any_size_and_every_job_takes_them_again(server: RunningServer, worker: Worker) -> None:
    table = plain(server, worker, "p", **{"firn.rewrite.max-job-size": "1 KiB", **TINY})
    insert(table, *[(1, part, "x") for part in "abc"])
    assert table.run("rewrite")["result"]["groups_done"] == 0
    assert table.run("rewrite", everything=True)["result"]["groups_done"] == 3


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_users_overwrite_costs_its_own_group_and_the_job_goes_on(
    server: RunningServer, worker: Worker, number: int
) -> None:
    """The overwrite comes just before the job's first, second or third commit."""
    table = plain(server, worker, "p")
    for row in range(2):
        insert(table, *[(row, part, "x") for part in "abc"])
    theirs = f"INSERT OVERWRITE {table.name} PARTITION (p = 'b') VALUES (9, 'theirs')"
    job = overtaken(table, theirs, before_commit=number)
    assert (job["status"], job["error"], job["result"]["groups_failed"]) == ("succeeded", None, 0)
    ours = [(row, part, "x") for part in "ac" for row in range(2)]
    rows = [(9, "b", "theirs"), *ours]
    assert table.rows() == sorted(rows, key=repr)
    assert len(files(table)) == 3
    assert set(commits_of(table, job["id"])) == {("replace", "2")}
    check_readable(table)


def overtaken(table: KeyedTable, statement: str, *, before_commit: int) -> dict[str, Any]:
    """A rewrite, and a user's statement just before its commit of this number."""
    numbers, lock = count(1), Lock()

    def meddle(method: str, path: str, forward: Forward) -> httpx.Response | None:
        with lock:
            if method == "POST" and "/tables/t" in path and next(numbers) == before_commit:
                table.server.spark.sql(statement)
        return forward()

    with meddling_proxy(table.server.url, meddle) as proxy:
        job_id = table.ask("rewrite")
        worker = a_worker(proxy.url)
        assert worker.work_once(worker.api.register(**worker.about).id, wait_seconds=5)
    return table.server.get(f"jobs/{job_id}")


def test_a_users_overwrite_of_the_only_group_leaves_the_job_nothing_to_do(
    server: RunningServer, worker: Worker
) -> None:
    table = plain(server, worker)
    for row in range(2):
        insert(table, (row, "a", "x"))
    job = overtaken(table, f"INSERT OVERWRITE {table.name} VALUES (9, 'b', 'theirs')", before_commit=1)
    assert (job["status"], job["error"], job["result"]["groups_failed"]) == ("succeeded", None, 0)
    assert (table.rows(), commits_of(table, job["id"])) == ([(9, "b", "theirs")], [])
    check_readable(table)


def test_what_came_beside_the_only_group_is_packed_with_it(server: RunningServer, worker: Worker) -> None:
    """Deleted rows of its files are a conflict, and the next round begins from what is left."""
    table = plain(server, worker, **{"write.delete.mode": "merge-on-read"})
    for row in range(2):
        insert(table, (row, "a", "x"), (row + 10, "a", "x"))
    job = overtaken(table, f"DELETE FROM {table.name} WHERE id = 11", before_commit=1)
    assert (job["status"], job["error"], job["result"]["groups_done"]) == ("succeeded", None, 1)
    assert table.rows() == [(0, "a", "x"), (1, "a", "x"), (10, "a", "x")]
    assert len(files(table)) == 1
    check_readable(table)


def test_each_of_a_jobs_commits_is_recorded(server: RunningServer, worker: Worker) -> None:
    table = plain(server, worker, "p")
    for row in range(2):
        insert(table, *[(row, part, "x") for part in "abc"])
    job = table.run("rewrite")
    assert (job["status"], job["result"]["groups_done"]) == ("succeeded", 3)
    assert commits_of(table, job["id"]) == [("replace", "2")] * 3


def test_a_table_of_many_groups_is_committed_in_a_bounded_number_of_commits(
    server: RunningServer, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optimizer.jobs.rewrite.MAX_COMMITS", 2)
    table = plain(server, worker, "p")
    for row in range(2):
        insert(table, *[(row, part, "x") for part in "abc"])
    job = table.run("rewrite")
    assert (job["status"], job["result"]["groups_done"]) == ("succeeded", 3)
    assert commits_of(table, job["id"]) == [("replace", "2"), ("replace", "4")]


def test_an_empty_table_has_nothing_to_rewrite(server: RunningServer, worker: Worker) -> None:
    table = plain(server, worker)
    job = table.run("rewrite")
    assert (job["status"], job["error"], job["result"]["rewritten_files"]) == ("succeeded", None, 0)
