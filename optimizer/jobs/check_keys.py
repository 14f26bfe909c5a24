"""Counts the keys that occur more than once in base, by one query over its key columns.

On request the job keeps one row of each, and deletes the others by one commit of position deletes. It chooses the rows
by one snapshot, which the commit names: if base has moved meanwhile, the server refuses the commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.leases import Outcome, Result
from firn.protocol.tasks.keys import KeysTask
from firn.spark.local_frames import create_local_frame
from optimizer.errors import Refused
from optimizer.job import OptimizerJob
from optimizer.job_run import JobRun
from optimizer.jobs.merge import format_partitions, run_signed
from optimizer.read_checks import reads_main_store

REPEATED, SAMPLE, WRITTEN, SURPLUS = "firn_repeated", "firn_sample", "firn_written", "firn_surplus"
"""The views that the server's SQL reads."""
MOST_KEYS = 20
"""Keys that a result lists, those with the most rows first."""
MOST_FILES = 5
"""The number of files in the report of each key."""


def run(work: JobRun) -> Result:
    """Count repeated keys; on request remove all rows but one of each key."""
    task = KeysTask.model_validate(work.lease.task)
    result: dict[str, Any] = {"snapshot_id": None, "keys": 0, "surplus_rows": 0, "sample": []}
    if task.snapshot_id is None:
        return Result(outcome=Outcome.NOTHING, result=result)
    work.keeper.stage("counting keys")
    with _repeated(work, task) as repeated:
        (keys, rows), *_ = repeated.agg(F.count("*"), F.coalesce(F.sum("n"), F.lit(0))).collect()
        result |= {"snapshot_id": str(task.snapshot_id), "keys": keys, "surplus_rows": rows - keys}
        if not keys:
            work.keeper.say("every key occurs once")
            return Result(outcome=Outcome.NOTHING, result=result)
        work.keeper.say(f"{keys} keys occur more than once: {rows - keys} duplicate rows")
        work.keeper.stage("finding the duplicate rows")
        result["sample"] = _sample(work, task, repeated)
        if not task.resolves:
            return Result(outcome=Outcome.NOTHING, result=result)
        _resolve(work, task, rows - keys)
    return Result(outcome=Outcome.COMMITTED, result=result | {"removed_rows": rows - keys})


@contextmanager
def _repeated(work: JobRun, task: KeysTask) -> Iterator[DataFrame]:
    """Count the repeated keys once, for all queries over them."""
    repeated = work.session.spark.sql(task.sql["repeated"]).persist()
    try:
        repeated.createOrReplaceTempView(REPEATED)
        yield repeated
    finally:
        repeated.unpersist()


def _sample(work: JobRun, task: KeysTask, repeated: DataFrame) -> list[dict[str, Any]]:
    """Some of the keys as text, with their rows and the files in which these lie."""
    names = [f"k{i}" for i in range(len(task.primary_key))]
    first = repeated.orderBy(F.desc("n"), *names).limit(MOST_KEYS).persist()
    try:
        first.createOrReplaceTempView(SAMPLE)
        rows = [tuple(row) for row in format_partitions(first).collect()]
        places = [tuple(row) for row in format_partitions(work.session.spark.sql(task.sql["places"])).collect()]
    finally:
        first.unpersist()
    files: dict[tuple[Any, ...], list[str]] = {}
    for *key, file, _ in places:
        files.setdefault(tuple(key), []).append(file)
    return [_describe_key(task.primary_key, key, int(count), sorted(files.get(tuple(key), ()))) for *key, count in rows]


def _describe_key(columns: Sequence[str], key: Sequence[Any], rows: int, files: Sequence[str]) -> dict[str, Any]:
    named = dict(zip(columns, key, strict=True))
    return {"key": named, "rows": rows, "files": list(files[:MOST_FILES]), "more_files": len(files[MOST_FILES:])}


def _resolve(work: JobRun, task: KeysTask, too_many: int) -> None:
    work.keeper.stage("choosing which rows stay")
    _name_written(work, task)
    surplus = work.session.spark.sql(task.sql["surplus"]).persist()
    try:
        surplus_rows = surplus.count()
        if surplus_rows != too_many:  # more would take all rows of a key away, fewer leave some
            raise Refused(
                f"the job would delete {surplus_rows} rows, but only {too_many} are surplus: base lists a file twice"
            )
        surplus.createOrReplaceTempView(SURPLUS)
        work.keeper.stage("taking the others away")
        work.commit(lambda: run_signed(work, task.sql["resolve"], _signature(work, task, surplus_rows)))
    finally:
        surplus.unpersist()
    work.keeper.say(f"{surplus_rows} rows were taken away")


def _signature(work: JobRun, task: KeysTask, rows: int) -> dict[str, str]:
    return {
        "firn.resolved-base": str(task.snapshot_id),
        "firn.job-id": work.lease.job_id,
        "firn.reason": f"{rows} rows whose keys occur more than once",
    }


def _name_written(work: JobRun, task: KeysTask) -> None:
    """By which commit each file with such keys came, and when it was written; a file that is gone fails the job."""
    rows = work.session.spark.sql(task.sql["files"]).collect()
    sequences = {str(file): int(sequence) for file, sequence in rows}  # each once, whatever base lists twice
    times = [(file, sequence, _time(work, file) if task.by_time else 0) for file, sequence in sequences.items()]
    written = create_local_frame(work.session.spark, times, "file string, sequence bigint, written bigint")
    written.createOrReplaceTempView(WRITTEN)


def _time(work: JobRun, location: str) -> int:
    path = work.session.jvm.org.apache.hadoop.fs.Path(location)
    filesystem = path.getFileSystem(work.session.spark._jsc.hadoopConfiguration())
    return int(filesystem.getFileStatus(path).getModificationTime())


JOB = OptimizerJob(run, reads_main_store)
