"""Merges on a real server by real Spark: whatever they do, the view does not change."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from py4j.protocol import Py4JJavaError

from firn.protocol.tasks.merge import BaseFacts, ChangeFacts, MergeTask
from firn.spark.errors import RowsRefused
from firn.spark.write import upsert
from optimizer.jobs import merge
from optimizer.jobs.clean import remove_from_table
from optimizer.spark import JOB_CATALOG, JobSession
from optimizer.worker import Worker
from tests.keyed_tables import KeyedTable
from tests.spark_fixtures import RunningServer, hadoop_catalog, shared_spark

pytestmark = pytest.mark.spark
COLUMNS = "id BIGINT, part STRING, v STRING"


@pytest.fixture(params=["rewrite", "vectors", "adopt", "auto"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def keyed(server: RunningServer, worker: Worker, mode: str = "rewrite", **more: str) -> KeyedTable:
    properties = {"firn.primary-key": "id", "firn.merge.mode": mode, **more}
    return KeyedTable(server, worker, COLUMNS, "part", **properties)


def check_merged(table: KeyedTable, mode: str) -> None:
    """Merge, and see that base alone now says what the view said, and still says."""
    before = table.rows()
    job = table.run("merge", mode=mode)
    assert (job["status"], job["error"]) == ("succeeded", None)
    assert table.rows() == before
    assert table.rows(".base") == before
    assert table.rows(".change") == []


def test_keys_that_move_vanish_and_return_read_the_same_after_each_merge(
    server: RunningServer, worker: Worker, mode: str
) -> None:
    table = keyed(server, worker)
    table.upsert((1, "p", "a"), (2, "q", "b"), (3, None, "c"), (4, "it's \\ ~", "d"))
    check_merged(table, mode)
    table.upsert((2, "p", "moved"), (3, None, "changed"), (5, "r", "new"))  # leaves q empty
    table.delete((4,), (77,), columns="id BIGINT")  # of 77 there is nothing
    assert table.rows() == [(1, "p", "a"), (2, "p", "moved"), (3, None, "changed"), (5, "r", "new")]
    check_merged(table, mode)
    table.delete((3,), columns="id BIGINT")
    table.upsert((3, "p", "back"), (1, None, "to null"))
    check_merged(table, mode)
    files = server.rows(f"SELECT DISTINCT part FROM {table.name}.base")
    assert files == [("p",), ("r",), (None,)]


def test_a_merge_that_touches_nothing_still_moves_the_watermark(server: RunningServer, worker: Worker) -> None:
    table = keyed(server, worker)
    table.delete((1,), columns="id BIGINT")
    check_merged(table, "auto")
    shown = server.get(f"catalogs/lake/tables/{table.short}")
    assert (shown["pending_rows"], shown["watermark"]) == (0, 1)
    assert table.run("merge")["result"] == {"cleaned_files": 0}


def test_vectors_for_keys_that_base_has_not_move_the_watermark_too(server: RunningServer, worker: Worker) -> None:
    table = keyed(server, worker)
    table.upsert((1, "p", "a"))
    check_merged(table, "vectors")
    table.delete((77,), columns="id BIGINT")
    check_merged(table, "vectors")
    shown = server.get(f"catalogs/lake/tables/{table.short}")
    assert (shown["pending_rows"], shown["watermark"]) == (0, 3)


def test_a_merge_leaves_other_partitions_files_alone(server: RunningServer, worker: Worker) -> None:
    table = keyed(server, worker)
    table.upsert((1, "p", "a"), (2, "q", "b"))
    check_merged(table, "rewrite")
    before = dict(server.rows(f"SELECT partition.part, file_path FROM {table.name}.base.files"))
    table.upsert((1, "p", "A"))
    check_merged(table, "rewrite")
    after = dict(server.rows(f"SELECT partition.part, file_path FROM {table.name}.base.files"))
    assert after["q"] == before["q"]
    assert after["p"] != before["p"]


def test_keys_of_partitions_are_merged_where_they_were_changed_and_nowhere_else(
    server: RunningServer, worker: Worker, mode: str
) -> None:
    """One key may live in several partitions, so no other partition is looked into for it."""
    table = keyed(server, worker, **{"firn.primary-key": "id, part", "firn.key.scope": "partition"})
    table.upsert((1, "p", "a"), (1, "q", "b"), (2, "r", "c"), (3, "it's", "d"))
    check_merged(table, "rewrite")
    files = f"SELECT partition.part, content, file_path FROM {table.name}.base.files"
    before = server.rows(files)
    table.upsert((1, "p", "A"), (9, "r", "new"))
    table.delete((3, "it's"), columns="id BIGINT, part STRING")
    check_merged(table, mode)
    assert table.rows() == [(1, "p", "A"), (1, "q", "b"), (2, "r", "c"), (9, "r", "new")]
    changed = set(before) ^ set(server.rows(files))
    assert {part for part, _, _ in changed} == {"p", "r", "it's"}


@pytest.mark.parametrize(
    ("meanwhile", "is_refused"),
    [
        ("INSERT INTO {base} VALUES (3, 'p')", True),
        ("DELETE FROM {base} WHERE id = 1", True),
        ("INSERT INTO {base} VALUES (4, 'q')", False),
    ],
    ids=["an append", "a delete", "an append elsewhere"],
)
def test_a_rewrite_conflicts_with_what_came_into_its_partitions(
    tmp_path: Path, meanwhile: str, *, is_refused: bool
) -> None:
    """As Iceberg sees it: the server would refuse a base that has moved at all, but here there is none to ask."""
    spark = hadoop_catalog(JOB_CATALOG, tmp_path)
    name = f"{JOB_CATALOG}.db.base"
    rows = "VALUES (1, 'p'), (5, 'p'), (2, 'q') AS t(id, part)"
    merge_on_read = "'write.delete.mode'='merge-on-read', 'format-version'='2'"
    spark.sql(f"CREATE TABLE {name} PARTITIONED BY (part) TBLPROPERTIES ({merge_on_read}) AS SELECT * FROM {rows}")
    ((head,),) = spark.sql(f"SELECT snapshot_id FROM {name}.snapshots").collect()
    base: dict[str, Any] = {"parts": ["db", "base"], "snapshot_id": head}
    facts: dict[str, Any] = {
        "base": BaseFacts.model_construct(**base),
        "change": ChangeFacts(parts=["db", "change"], snapshot_id=1),
        "watermark": 0,
        "through": 1,
        "target_file_size": 2**20,
        "sql": {"merged": f"SELECT * FROM {rows}"},
    }
    task = MergeTask.model_construct(**facts)
    work: Any = SimpleNamespace(session=JobSession(spark, "j"), lease=SimpleNamespace(job_id="j"))
    spark.sql(meanwhile.format(base=name))
    with pytest.raises(Py4JJavaError, match="conflicting") if is_refused else nullcontext():
        merge._rewrite(work, task, merge.Plan("rewrite", "part = 'p'"))
    spark.sql(f"REFRESH TABLE {name}")
    assert spark.sql(f"SELECT count(*) FROM {name}.snapshots").first() == (2 if is_refused else 3,)


class OfALargeTable(MergeTask):
    """Facts that leave the choice to the optimizer, and nothing too small to be spared."""

    @classmethod
    def model_validate(cls, obj: Any, **more: Any) -> Self:
        return super().model_validate(obj, **more).model_copy(update={"mode": "auto", "small_bytes": -1})


@pytest.mark.parametrize(
    ("changes", "chosen", "looked"),
    [
        ([(1, "p", "A")], "vectors", ["1 partitions are written to"]),
        ([(n, "p", "B") for n in range(1, 5)], "rewrite", ["1 partitions are written to", "1 partitions are touched"]),
        ([(10, "p", "C")], "vectors", ["1 partitions are written to"]),
    ],
    ids=["few of many", "most of a partition", "a key that moves"],
)
def test_partitions_are_looked_for_in_base_only_where_a_rewrite_may_be_cheaper(
    server: RunningServer, worker: Worker, monkeypatch: pytest.MonkeyPatch, changes: list[Any], chosen: str, looked: Any
) -> None:
    table = keyed(server, worker)
    table.upsert(*[(n, "p", "a") for n in range(1, 9)], *[(n, "q", "b") for n in range(9, 17)])
    check_merged(table, "rewrite")
    monkeypatch.setattr(merge, "MergeTask", OfALargeTable)
    table.upsert(*changes)
    before = table.rows()
    job = table.run("merge")
    assert job["result"]["mode"] == chosen
    log_lines = [log_line["line"] for log_line in server.http.get(f"/api/v1/jobs/{job['id']}/logs").json()]
    assert [line for line in log_lines if "partitions are" in line] == looked
    assert table.rows() == table.rows(".base") == before


def test_an_unpartitioned_table_with_a_composite_key_of_odd_names(
    server: RunningServer, worker: Worker, mode: str
) -> None:
    columns = "`a.b` STRING, `we``ird, key` INT, `select` STRING"
    table = KeyedTable(server, worker, columns, "", **{"firn.primary-key": "a.b"})
    table.upsert(("x", 1, "one"), ("y", 2, "two"))
    check_merged(table, mode)
    table.upsert(("x", 3, None))
    table.delete(("y",), columns="`a.b` STRING")
    assert table.rows() == [("x", 3, None)]
    check_merged(table, mode)


def test_time_partitions_are_overwritten_from_their_start_to_the_next(server: RunningServer, worker: Worker) -> None:
    columns = "id INT, at TIMESTAMP, day DATE, n INT"
    table = KeyedTable(server, worker, columns, "hours(at), months(day), n", **{"firn.primary-key": "id"})
    spark = server.spark
    rows = (
        "VALUES (1, TIMESTAMP '2026-11-21 10:59:59.999999', DATE '2026-11-30', 1),"
        " (2, TIMESTAMP '2026-11-21 11:00:00', DATE '2026-12-01', 1), (3, TIMESTAMP '1969-12-31 23:59:59', NULL, NULL)"
    )
    for value in ("n", "n + 1"):
        frame = spark.sql(f"SELECT id, at, day, {value} AS n FROM ({rows}) AS t(id, at, day, n)")
        upsert(frame, table.name)
        check_merged(table, "rewrite")


def test_of_two_live_partition_specs_the_merge_uses_vectors(server: RunningServer, worker: Worker) -> None:
    table = keyed(server, worker)
    table.upsert((1, "p", "a"), (2, "q", "b"))
    check_merged(table, "rewrite")
    server.spark.sql(f"ALTER TABLE {table.name}.base ADD PARTITION FIELD v")
    table.upsert((1, "p", "A"), (3, "q", "c"))
    before = table.rows()
    job = table.run("merge", mode="rewrite")
    assert (job["status"], job["result"].get("mode")) == ("succeeded", "vectors")
    assert table.rows() == table.rows(".base") == before


def test_a_clean_leaves_its_files_on_disk(server: RunningServer, worker: Worker) -> None:
    table = keyed(server, worker)
    table.upsert((1, "p", "a"))
    files = [
        Path(path.removeprefix("file:")) for (path,) in server.rows(f"SELECT file_path FROM {table.name}.change.files")
    ]
    check_merged(table, "auto")
    assert files
    assert all(file.is_file() for file in files)
    old = server.rows(f"SELECT snapshot_id FROM {table.name}.change.snapshots WHERE operation = 'append'")[0][0]
    assert server.rows(f"SELECT id FROM {table.name}.change VERSION AS OF {old}") == [(1,)]


def test_removing_files_from_a_table_does_not_delete_them(tmp_path: Path) -> None:
    """py4j would choose a method that does, were the path given as a plain string."""
    spark = hadoop_catalog("h", tmp_path)
    spark.sql("CREATE TABLE h.db.t AS SELECT 1 AS id")
    (path,) = (row[0] for row in spark.sql("SELECT file_path FROM h.db.t.files").collect())
    jvm: Any = shared_spark()._jvm
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, "h.db.t")
    remove_from_table(jvm, table, [path], {"firn.job-id": "j"})
    spark.sql("REFRESH TABLE h.db.t")
    assert spark.table("h.db.t").collect() == []
    assert Path(path.removeprefix("file:")).is_file()
    (summary,) = (
        row[0] for row in spark.sql("SELECT summary['firn.job-id'] FROM h.db.t.snapshots").collect() if row[0]
    )
    assert summary == "j"


def test_on_an_insert_only_table_merges_add_rows_and_the_first_row_of_a_key_stays(
    server: RunningServer, worker: Worker
) -> None:
    """Also when a ttl job deletes a row that had beaten a pending one."""
    ttl = {"firn.ttl.field": "day", "firn.ttl.max-age": "10 d"}
    properties = {"firn.primary-key": "id", "firn.insert-only": "true", **ttl}
    table = KeyedTable(server, worker, "id BIGINT, part STRING, day DATE", "part", **properties)
    today = datetime.now(UTC).date()
    old, expected = today - timedelta(days=30), dict[int, tuple[Any, ...]]()
    for number, merge_mode in enumerate(("rewrite", "vectors", "adopt")):
        for row in ((1, merge_mode, today), (2, "p", old), (number + 10, merge_mode, today)):
            table.upsert(row)
            expected.setdefault(row[0], row)
        server.spark.sql(f"INSERT INTO {table.name} VALUES ({number + 10}, 'second', NULL), ({number + 20}, 'p', NULL)")
        expected[number + 20] = (number + 20, "p", None)
        assert table.rows() == table.rows(".merged") == sorted(expected.values(), key=repr)
        check_merged(table, merge_mode)
    with pytest.raises(RowsRefused, match="is insert-only"):
        table.delete((1,), columns="id BIGINT")
    with pytest.raises(Exception, match="statements on it cannot change or delete rows"):
        server.spark.sql(f"DELETE FROM {table.name} WHERE id = 1")
    table.upsert((2, "absorbed", today))
    job = table.run("ttl")
    assert (job["status"], job["error"], job["result"]["merged"]) == ("succeeded", None, True)
    del expected[2]
    assert table.rows() == table.rows(".merged") == table.rows(".base") == sorted(expected.values(), key=repr)


def test_reads_hide_old_rows_while_merges_and_statements_keep_them(server: RunningServer, worker: Worker) -> None:
    """In Spark, an image in format v3 leaves out files of base whose rows are all old."""
    ttl = {"firn.ttl.field": "at", "firn.ttl.max-age": "10 d", "firn.ttl.at-read": "true"}
    properties = {"firn.primary-key": "id", "firn.read.format-version": "3", **ttl}
    table = KeyedTable(server, worker, "id BIGINT, at TIMESTAMP, v STRING", "days(at)", **properties)
    now = datetime.now(UTC).replace(tzinfo=None)
    old = now - timedelta(days=30)

    def list_ids(part: str = "") -> list[int]:
        return sorted(row[0] for row in server.rows(f"SELECT id FROM {table.name}{part}"))

    table.upsert((1, old, "a"), (2, now, "b"), (3, None, "c"), (4, old, "d"))
    assert list_ids() == list_ids(".merged") == [2, 3]
    assert table.run("merge", mode="adopt")["status"] == "succeeded"
    table.upsert((5, old, "e"), (6, now, "f"))
    assert list_ids() == list_ids(".merged") == [2, 3, 6]
    server.spark.sql(f"UPDATE {table.name} SET v = 'x' WHERE id IN (1, 2)")
    server.spark.sql(f"INSERT INTO {table.name} VALUES (4, current_timestamp(), 'back')")
    assert table.run("merge", mode="vectors")["status"] == "succeeded"
    assert list_ids() == list_ids(".merged") == [2, 3, 4, 6]
    assert list_ids(".base") == [1, 2, 3, 4, 5, 6]
    assert server.rows(f"SELECT count(*), max(v) FROM {table.name} WHERE id IN (1, 2)") == [(1, "x")]
    job = table.run("ttl")
    assert (job["status"], job["error"], list_ids(".base")) == ("succeeded", None, [2, 3, 4, 6])
    assert list_ids() == [2, 3, 4, 6]
