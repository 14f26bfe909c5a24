"""Sinks on a real broker: each record is in the table once, whatever becomes of checkpoints, copies and answers.

The oracle counts the changes and sums a column: the final rows of upserts alone hide doubled records.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

import firn
from firn.spark import sinks
from firn.spark.sessions import catalog_conf
from firn.spark.sinks import append_sink, resume, upsert_sink, write_stream
from firn.spark.write import upsert
from tests.integration.streams.queries import Pipeline, numbers
from tests.integration.streams.topics import Topic
from tests.lossy_proxy import lossy_proxy
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
NewPipeline = Callable[..., Pipeline]


@pytest.fixture
def pipeline(server: RunningServer, new_topic: Callable[..., Topic], tmp_path: Path) -> Iterator[NewPipeline]:
    def make(**choices: object) -> Pipeline:
        return Pipeline(server.spark, new_topic(), tmp_path / "checkpoint", **choices).create()  # type: ignore[arg-type]

    yield make
    for query in server.spark.streams.active:
        query.stop()


def total(end: int) -> tuple[int, int]:
    """Count and sum of the records 0 to end - 1."""
    return end, sum(range(end))


@pytest.mark.parametrize("sink", ["upsert_sink", "append_sink"])
def test_iceberg_16008_a_restart_and_a_lost_checkpoint_lose_and_double_nothing(
    pipeline: NewPipeline, sink: str
) -> None:
    line = pipeline(keyed=sink == "upsert_sink")
    line.topic.send(numbers(0, 320))
    assert line.run() is None
    line.topic.send(numbers(5000, 5040), commit=False)  # an aborted transaction has offsets, and no records
    line.topic.send(numbers(320, 640), commit=True)
    assert line.run() is None  # the checkpoint goes on
    assert line.written() == total(640)
    shutil.rmtree(line.checkpoint)
    line.topic.send(numbers(640, 960))
    assert line.run() is None  # the table goes on, and Spark counts its batches from 0 again
    assert line.written() == total(960)
    assert line.snapshots() == 3


@pytest.fixture
def lost(pipeline: NewPipeline) -> Pipeline:
    """A plain table with 10 of 20 records, whose query has lost its checkpoint."""
    line = pipeline(keyed=False)
    line.topic.send(numbers(0, 10))
    assert line.run() is None
    shutil.rmtree(line.checkpoint)
    line.topic.send(numbers(10, 20))
    return line


def test_a_lost_checkpoint_without_resume_is_refused_with_the_remedy(lost: Pipeline) -> None:
    failure = lost.run({"startingOffsets": "earliest"})
    assert failure is not None
    assert "the table has a part of it already" in failure
    assert f"firn.spark.resume('{lost.table}', writer='orders')" in failure
    assert lost.written() == total(10)
    shutil.rmtree(lost.checkpoint)
    assert lost.run() is None
    assert lost.written() == total(20)


def test_hudi_auto_offset_reset_latest_would_skip_records_and_is_refused(lost: Pipeline) -> None:
    ends = lost.topic.ends()
    lost.topic.send(numbers(20, 30))
    newest = f'{{"{lost.topic.name}": {{"0": {ends[0]}, "1": {ends[1]}}}}}'  # what latest was when the query began
    failure = lost.run({"startingOffsets": newest})
    assert failure is not None
    assert "the records between are missing" in failure
    assert lost.written() == total(10)


def test_hudi_fail_on_data_loss_false_would_skip_records_and_resume_stops_instead(lost: Pipeline) -> None:
    ends = lost.topic.ends()
    admin = AdminClient({"bootstrap.servers": lost.topic.brokers})
    gone = [TopicPartition(lost.topic.name, number, end) for number, end in ends.items()]
    for deleted in admin.delete_records(gone).values():
        deleted.result(30)
    lost.topic.send(numbers(20, 30))
    failure = lost.run()
    assert failure is not None
    assert "data loss" in failure.lower() or "data may have been lost" in failure.lower(), failure
    assert lost.written() == total(10)


def test_a_table_that_is_created_again_is_not_filled_from_the_midst_of_the_topic(pipeline: NewPipeline) -> None:
    line = pipeline(keyed=False)
    line.topic.send(numbers(0, 10))
    assert line.run() is None
    line.spark.sql(f"DROP TABLE {line.table}")
    line.create()
    line.topic.send(numbers(10, 20))
    failure = line.run()  # the checkpoint counts ten records as read
    assert failure is not None
    assert "the table has no records of writer 'orders'" in failure
    assert line.written() == (0, 0)
    shutil.rmtree(line.checkpoint)
    assert line.run() is None
    assert line.written() == total(20)


def test_a_topic_with_more_partitions_is_read_whole_by_a_new_checkpoint(lost: Pipeline) -> None:
    admin = AdminClient({"bootstrap.servers": lost.topic.brokers})
    admin.create_partitions([NewPartitions(lost.topic.name, 4)])[lost.topic.name].result(30)
    replace(lost.topic, partitions=4).send(numbers(20, 30))
    failure = lost.run()
    assert failure is not None
    assert "must specify all TopicPartitions" in failure
    options = resume(lost.table, writer=lost.writer, topic=lost.topic.name, partitions=4, spark=lost.spark)
    shutil.rmtree(lost.checkpoint)
    assert lost.run(options) is None
    assert lost.written() == total(30)


def test_iceberg_10892_an_older_checkpoint_repeats_nothing_and_goes_on(pipeline: NewPipeline, tmp_path: Path) -> None:
    line = pipeline(keyed=False)
    line.topic.send(numbers(0, 50))
    assert line.run() is None
    shutil.copytree(line.checkpoint, tmp_path / "older")
    line.topic.send(numbers(50, 100))
    assert line.run() is None
    shutil.rmtree(line.checkpoint)
    shutil.copytree(tmp_path / "older", line.checkpoint)
    assert line.run() is None  # the table has the whole batch
    line.topic.send(numbers(100, 150))
    assert line.run() is None
    assert line.written() == total(150)
    assert line.snapshots() == 3


def test_a_checkpoint_newer_than_the_table_is_refused_until_the_query_resumes(pipeline: NewPipeline) -> None:
    line = pipeline(keyed=False)
    for end in (50, 100):
        line.topic.send(numbers(end - 50, end))
        assert line.run() is None
    first = line.spark.sql(f"SELECT snapshot_id FROM {line.table}.snapshots ORDER BY committed_at").first()
    assert first is not None
    line.spark.sql(f"CALL lake.system.rollback_to_snapshot('db.{line.name}', {first[0]})")
    line.topic.send(numbers(100, 150))
    failure = line.run()
    assert failure is not None
    assert "the records between are missing" in failure
    shutil.rmtree(line.checkpoint)
    assert line.run() is None
    assert line.written() == total(150)


def test_iceberg_17551_17340_16282_fluss_2648_a_copy_that_was_replaced_in_mid_batch_commits_nothing(
    pipeline: NewPipeline, tmp_path: Path
) -> None:
    old = pipeline()
    new = Pipeline(old.spark, old.topic, tmp_path / "new", name=old.name)
    old.topic.send(numbers(0, 100))
    assert old.run() is None
    old_options, old_sink = old.resume(), old.sink()
    new_options: dict[str, str] = {}

    def replaced(df: DataFrame, batch: int) -> None:
        new_options.update(new.resume())  # the newer copy registers, and learns its position, while this one writes
        old_sink(df, batch)

    old.topic.send(numbers(100, 200))
    failure = old.run(old_options, replaced)
    assert failure is not None
    assert "a newer copy of writer 'orders', epoch 3, was started at" in failure
    assert old.written() == total(100)
    assert new.run(new_options) is None
    old.topic.send(numbers(200, 300))
    assert new.run() is None
    assert new.written() == total(300)
    assert new.snapshots() == 3


def test_a_failed_batch_leaves_nothing_and_the_same_checkpoint_goes_on(pipeline: NewPipeline) -> None:
    line = pipeline(op="op")
    line.topic.send([(number, {"id": number, "n": number, "op": "XU"[number > 3]}) for number in range(100)])
    failure = line.run()
    assert failure is not None
    assert "an operation is I, U or D, not X" in failure
    assert line.snapshots() == 0
    assert line.run(change=lambda df: df.withColumn("op", F.lit("U"))) is None
    assert line.written() == total(100)


def test_a_lost_answer_is_settled_by_the_position(pipeline: NewPipeline, server: RunningServer) -> None:
    line = pipeline()
    line.topic.send(numbers(0, 100))
    lost: list[str] = []

    def loses(method: str, path: str) -> bool:
        is_commit = (method == "POST" and path.endswith(f"{line.name}%1Fchange")) or path.endswith("/tables/change")
        if is_commit and method == "POST":
            lost.append(path)
        return is_commit and method == "POST"

    with lossy_proxy(server.url, loses) as proxy:
        # A name of its own: Spark keeps a catalog, with its address, for as long as the session.
        for key, value in catalog_conf(proxy.url, "lake", name="losing").items():
            line.spark.conf.set(key, value)
        line.catalog = "losing"
        assert line.run() is None
    line.catalog = "lake"
    assert lost
    assert line.written() == total(100)
    assert line.snapshots() == 1


def test_iceberg_15305_of_two_changes_of_a_key_the_later_record_wins_also_in_another_partition(
    pipeline: NewPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "SMALL_RECORDS", 0)  # several tasks write the commit
    moving = pipeline(by="PARTITIONED BY (n)", op="op")
    # Written to two partitions in one commit, the earlier change could win: n=1 sorts before n=2, 2 before 9.
    moving.topic.send([(1, {"id": 1, "n": n, "op": "U"}) for n in (2, 9, 1)])
    moving.topic.send([(3, {"id": 3, "n": n, "op": op}) for n, op in ((5, "U"), (4, "D"))])
    assert moving.run() is None
    assert moving.spark.sql(f"SELECT id, n FROM {moving.table}").collect() == [(1, 1)]
    assert moving.written()[0] == 2

    staying = pipeline(op="op")
    staying.checkpoint = moving.checkpoint.with_name("staying")
    staying.topic.send([(1, {"id": 1, "n": n, "op": "U"}) for n in (2, 9, 1)])
    assert staying.run() is None
    assert staying.spark.sql(f"SELECT id, n FROM {staying.table}").collect() == [(1, 1)]
    assert staying.written() == (3, 12)  # every change is kept


def test_paimon_8858_10134_5387_a_stream_of_some_columns_keeps_the_others_and_a_delete_resets_all(
    pipeline: NewPipeline,
) -> None:
    line = pipeline(columns="id BIGINT, n BIGINT, m BIGINT", op="op", properties={"firn.partial": "true"})
    upsert(line.spark.sql("SELECT id, 10 n, id m FROM range(3)"), line.table)
    changes = [(0, 1, "U"), (1, 2, "U"), (1, None, "D"), (1, 3, "U")]
    line.topic.send([(key, {"id": key, "n": n, "op": op}) for key, n, op in changes])
    sink = upsert_sink(line.table, writer=line.writer, columns=["n"], op="op", spark=line.spark)
    assert line.run({}, sink, lambda df: df.drop("m")) is None
    rows = line.spark.sql(f"SELECT id, n, m FROM {line.table} ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(0, 1, 0), (1, 3, None), (2, 10, 2)]


def test_a_source_without_positions_is_written_once_for_each_checkpoint(
    pipeline: NewPipeline, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    line = pipeline(keyed=False)
    source = tmp_path / "source"
    source.mkdir()
    (source / "1.json").write_text('{"id": 1, "n": 1}\n', encoding="utf-8")
    files = line.spark.readStream.schema(line.columns).json(str(source))
    checkpoint = str(tmp_path / "of-files")
    for _ in range(2):
        query = write_stream(files, line.table, writer="files", checkpoint=checkpoint, trigger={"availableNow": True})
        assert query.awaitTermination(120)
    assert line.written() == (1, 1)
    assert any("its rows are written twice" in message for message in caplog.messages)
    commits = tmp_path / "of-files" / "commits"
    shutil.rmtree(commits)  # as if the process had died between the commit and Spark's note of it
    query = write_stream(files, line.table, writer="files", checkpoint=checkpoint, trigger={"availableNow": True})
    assert query.awaitTermination(120)
    assert line.written() == (1, 1)


def test_sinks_know_their_kind_of_table(pipeline: NewPipeline) -> None:
    keyed, plain = pipeline(), pipeline(keyed=False)
    with pytest.raises(firn.errors.Invalid, match="keyed table"):
        append_sink(keyed.table, writer="w", spark=keyed.spark)
    with pytest.raises(firn.spark.NotKeyed):
        upsert_sink(plain.table, writer="w", spark=plain.spark)
