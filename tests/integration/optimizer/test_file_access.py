"""A job opens no file that its table may not name; each way in which one got at hidden rows, on real Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bench.etl.spark_counts import read_counts
from optimizer import read_checks
from optimizer.job_run import JobRun
from optimizer.read_checks import JobReads, check_reads
from optimizer.worker import Worker
from tests.keyed_tables import KeyedTable, change_row
from tests.optimizer.confined import confined
from tests.spark_fixtures import RunningServer

AT_ONCE = {"firn.expire.max-age": "0 s", "firn.expire.min-snapshots": "1"}
SECRET = "hidden row"
COLUMNS = "id BIGINT, v STRING"


def local(location: str) -> Path:
    return Path("/" + location.removeprefix("file:").lstrip("/"))


def loaded(table: KeyedTable, store: str = "") -> Any:
    jvm: Any = table.server.spark._jvm
    name = f"{table.name}.{store}" if store else table.name
    return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(table.server.spark._jsparkSession, name)


def commit_file(table: KeyedTable, path: str, rows: Path, store: str = "") -> None:
    """Commit a data file under any path, as any client can: the server does not read what is in manifests."""
    jvm: Any = table.server.spark._jvm
    java = loaded(table, store)
    spec = jvm.org.apache.iceberg.PartitionSpec.unpartitioned()
    footer = pq.read_metadata(rows)
    file = jvm.org.apache.iceberg.DataFiles.builder(spec).withPath(path).withFormat("parquet")
    file = file.withFileSizeInBytes(rows.stat().st_size).withRecordCount(footer.num_rows).build()
    java.newAppend().appendFile(file).commit()


def files_in(directory: Path) -> list[Path]:
    """Regular files alone: what a link leads to was not copied."""
    return [path for path in directory.rglob("*.parquet") if not path.is_symlink() and path.resolve() == path]


def has_copied(table: KeyedTable, secret: str = SECRET) -> bool:
    """Whether a hidden row is in any file below the table's directory, committed or not."""
    files = files_in(directory_of(table))
    return any(
        secret in pq.read_table(path).column("v").to_pylist() for path in files if "v" in pq.read_schema(path).names
    )


def directory_of(table: KeyedTable) -> Path:
    shown = table.server.get(f"catalogs/lake/tables/{table.short}")["stores"]
    return local(next(iter(shown.values()))["location"]).resolve()


def plain(server: RunningServer, worker: Worker, **properties: str) -> KeyedTable:
    return KeyedTable(server, worker, COLUMNS, "", **properties)


@pytest.fixture(scope="module")
def hidden(server: RunningServer, worker: Worker) -> KeyedTable:
    table = plain(server, worker)
    server.spark.sql(f"INSERT INTO {table.name} VALUES (7, '{SECRET}')")
    return table


@pytest.fixture(scope="module")
def secret(hidden: KeyedTable) -> Path:
    """The hidden table's only data file."""
    [file] = files_in(directory_of(hidden))
    return file


def through_parent(table: KeyedTable, secret: Path) -> str:
    return f"file:{directory_of(table)}/data/../../{secret.relative_to(directory_of(table).parent)}"


def through_link(table: KeyedTable, secret: Path) -> str:
    link = directory_of(table) / "data" / "mine.parquet"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(secret)
    return f"file:{link}"


def through_linked_directory(table: KeyedTable, secret: Path) -> str:
    link = directory_of(table) / "data" / "more"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(secret.parent)
    return f"file:{link}/{secret.name}"


WAYS: list[Callable[[KeyedTable, Path], str]] = [
    lambda _, secret: f"file:{secret}",
    through_parent,
    through_link,
    through_linked_directory,
]


def refused(table: KeyedTable, hidden: KeyedTable, kind: str, **params: Any) -> str:
    """How a job was refused: by the reason, which names no other table."""
    job = table.run(kind, **params)
    assert job["status"] == "failed", job
    messages = f"{job['error']} {job['result']}"
    assert not re.search(
        rf"{re.escape(hidden.short)}\b", messages
    )  # its own name may begin with the hidden one's: t11, t1
    return messages


@pytest.mark.spark
@pytest.mark.parametrize("most_listed", [read_checks.MOST_LISTED, -1], ids=["few", "many"])
@pytest.mark.parametrize("way", WAYS, ids=["outright", "parent", "link", "linked-directory"])
def test_a_rewrite_copies_no_row_of_a_hidden_table(
    server: RunningServer,
    worker: Worker,
    hidden: KeyedTable,
    secret: Path,
    way: Callable[[KeyedTable, Path], str],
    most_listed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The optimizer read whatever a table's manifests named, with its own rights, into the table's directory.

    It lists few files by itself, and has Spark list many.
    """
    monkeypatch.setattr(read_checks, "MOST_LISTED", most_listed)
    table = plain(server, worker)
    server.spark.sql(f"INSERT INTO {table.name} VALUES (1, 'mine')")
    commit_file(table, way(table, secret), secret)
    refused(table, hidden, "rewrite", everything=True)
    assert not has_copied(table)


@pytest.mark.spark
def test_no_other_kind_of_job_opens_a_hidden_file(
    server: RunningServer, worker: Worker, hidden: KeyedTable, secret: Path
) -> None:
    table = plain(server, worker, **{"firn.statistics.columns": "id"})
    server.spark.sql(f"INSERT INTO {table.name} VALUES (1, 'mine')")
    commit_file(table, f"file:{secret}", secret)
    for kind in ("statistics", "rewrite-deletes"):
        refused(table, hidden, kind)
    assert not has_copied(table)


@pytest.mark.spark
def test_a_merge_copies_no_change_of_a_hidden_table(server: RunningServer, worker: Worker) -> None:
    """Changes lie in a store of the user's own; the file that it names does not."""
    other = KeyedTable(server, worker, COLUMNS, "", **{"firn.primary-key": "id"})
    other.upsert((7, SECRET))
    [change] = [file for file in files_in(directory_of(other).parent) if "change" in file.parts]
    table = KeyedTable(server, worker, COLUMNS, "", **{"firn.primary-key": "id"})
    table.upsert((1, "mine"))
    commit_file(table, f"file:{change}", change, "change")
    refused(table, other, "merge")
    refused(table, other, "compact")
    assert not has_copied(table)


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["rewrite", "rewrite-manifests", "expire"])
def test_a_manifest_list_of_a_hidden_table_is_not_followed(
    server: RunningServer, worker: Worker, hidden: KeyedTable, kind: str
) -> None:
    """A snapshot's manifest list was that of a hidden table: such a commit is refused today, older ones are there."""
    table = plain(server, worker, **AT_ONCE)
    for value in (1, 2):
        server.spark.sql(f"INSERT OVERWRITE {table.name} VALUES ({value}, 'mine')")
    shown = server.get(f"catalogs/lake/tables/{table.short}")["stores"]["table"]
    theirs = server.get(f"catalogs/lake/tables/{hidden.short}")["stores"]["table"]
    foreign = json.loads(local(theirs["metadata_location"]).read_text(encoding="utf-8"))["snapshots"][0][
        "manifest-list"
    ]
    here = local(shown["metadata_location"])
    metadata = json.loads(here.read_text(encoding="utf-8"))
    for snapshot in metadata["snapshots"]:
        snapshot["manifest-list"] = foreign
    there = here.with_name("00009-older.metadata.json")
    there.write_text(json.dumps(metadata), encoding="utf-8")
    change_row(table, metadata_location=there.as_uri())
    refused(table, hidden, kind, **({"everything": True} if kind == "rewrite" else {}))
    assert not has_copied(table)


def late(worker: Worker, table: KeyedTable, file: Path) -> Worker:
    """A worker whose table gets another file when its files were checked."""

    def check(work: JobRun, reads: JobReads) -> None:
        check_reads(work, reads)
        commit_file(table, f"file:{file}", file)

    return Worker(worker.api, worker.spark, worker.jobs, worker.about, worker.stopping, check=check)


@pytest.mark.spark
def test_the_check_of_a_small_table_starts_no_job_of_spark(server: RunningServer, worker: Worker) -> None:
    """Two jobs for each table were a fifth of the CPU time of a run of a small pipeline."""
    table = KeyedTable(server, worker, COLUMNS, "", **{"firn.primary-key": "id"})
    table.upsert((1, "mine"))
    started: list[int] = []

    def check(work: JobRun, reads: JobReads) -> None:
        before = read_counts(server.spark).jobs
        check_reads(work, reads)
        started.append(read_counts(server.spark).jobs - before)

    table.worker = Worker(worker.api, worker.spark, worker.jobs, worker.about, worker.stopping, check=check)
    assert table.run("merge")["status"] == "succeeded"
    assert started == [0]


@pytest.mark.spark
def test_a_file_that_is_committed_after_the_check_of_a_rewrite_is_not_opened(
    server: RunningServer, worker: Worker, secret: Path
) -> None:
    table = plain(server, worker)
    server.spark.sql(f"INSERT INTO {table.name} VALUES (1, 'mine')")
    table.worker = late(worker, table, secret)
    table.run("rewrite", everything=True)
    assert not has_copied(table)


@pytest.mark.spark
def test_a_file_that_is_committed_after_the_check_of_a_delete_is_not_opened(
    server: RunningServer, worker: Worker
) -> None:
    """Spark loads a table anew for each statement: a delete that copies rows went by whatever there was by then."""
    columns = "at DATE, v STRING"
    old, new = "DATE '2020-01-01'", "current_date()"
    other = KeyedTable(server, worker, columns, "")
    server.spark.sql(
        f"INSERT INTO {other.name} SELECT /*+ COALESCE(1) */ * FROM VALUES ({old}, 'x'), ({new}, '{SECRET}')"
    )
    [file] = files_in(directory_of(other))
    settings = {"firn.ttl.field": "at", "firn.ttl.max-age": "30 d", "write.delete.mode": "copy-on-write"}
    table = KeyedTable(server, worker, columns, "", **settings)
    server.spark.sql(f"INSERT INTO {table.name} SELECT /*+ COALESCE(1) */ * FROM VALUES ({old}, 'y'), ({new}, 'mine')")
    table.worker = late(worker, table, file)
    table.run("ttl")
    assert not has_copied(table)


@pytest.mark.spark
def test_a_landing_area_that_an_administrator_has_allowed_is_read_and_its_files_are_left(
    server: RunningServer, worker: Worker, secret: Path, tmp_path: Path
) -> None:
    """Expiry deleted Parquet files of another system, which add_files had taken in and a delete had let go."""
    landing = tmp_path / "landing" / "one.parquet"
    landing.parent.mkdir()
    landing.write_bytes(secret.read_bytes())
    table = plain(server, worker, **AT_ONCE)
    server.spark.sql(f"INSERT INTO {table.name} VALUES (1, 'mine')")
    allowed = {"set": {"firn.storage.allowed-locations": str(landing.parent.parent)}, "remove": []}
    assert server.http.patch("/api/v1/catalogs/lake/properties", json=allowed).is_success
    commit_file(table, f"file:{landing}", landing)
    rewritten = table.run("rewrite", everything=True)
    assert (rewritten["status"], rewritten["result"]["rewritten_files"]) == ("succeeded", 2)
    expired = table.run("expire")
    assert expired["result"]["files_outside"] == 1
    log = server.http.get(f"/api/v1/jobs/{expired['id']}/logs").json()
    assert any("left 1 files outside the table's directory" in line["line"] for line in log)
    assert landing.is_file()
    assert table.rows() == [(1, "mine"), (7, SECRET)]


def test_spark_judges_paths_by_the_same_rule_for_many_directories(server: RunningServer) -> None:
    """A Hive table has a directory for each partition. A condition for each was more code than Java allows."""
    table_name = "t-0123456789ab"
    own = [f"s3://b/hive/month={month}" for month in range(50)]
    own += [r"s3://b/wh/a\Eb", f"hdfs://nn:9000/wh/{table_name}", "file:///wh/t"]
    paths = [
        *("s3://b/hive/month=7/x", "s3a://b/hive/month=49/y=1/x", "s3://b/hive/month=50/x", "s3://b/hive/month=7x/x"),
        *(
            r"s3://b/wh/a\Eb/x",
            "s3://b/wh/ab/x",
            f"s3://b/hive/month=7/{table_name}/x",
            "s3://b/hive/month=7/../../u/x",
        ),
        *(
            f"hdfs://nn:9000/wh/{table_name}/data/x",
            f"hdfs://nn:9000/wh/{table_name}/{table_name}/x",
            f"hdfs://other/wh/{table_name}/x",
        ),
        *(f"s3n://b/hive/month=7/a\n/{table_name}/x", "/wh/t/x", "/other/x", "x", ""),
    ]
    spark = server.spark
    frame = spark.createDataFrame([(path,) for path in paths], "path STRING")
    by_rule, rule = confined(*own)
    rule.check_files(paths)
    by_spark, judged = confined(*own)
    spark.conf.set("spark.sql.codegen.fallback", "false")
    try:
        judged.check_frame(frame, "path")
    finally:
        spark.conf.unset("spark.sql.codegen.fallback")
    assert by_spark.checked == by_rule.checked
    assert len(by_rule.checked) > 7
