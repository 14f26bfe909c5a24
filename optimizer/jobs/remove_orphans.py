"""Orphans: files at a table's place that nothing refers to are proposed to the server, which proves and moves them.

Listing comes first and the metadata is read after it, so that a file which is written and committed meanwhile is known.
Nothing is moved or deleted here: the server does it while the lease stands, and judges every file anew.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.leases import Outcome, Result
from firn.protocol.tasks.orphans import Ended, OrphansTask, QuarantinedFile, QuarantinedFiles
from optimizer.errors import Refused
from optimizer.job import OptimizerJob
from optimizer.job_run import JobRun
from optimizer.reachable_files import list_needed_files
from optimizer.read_checks import reads_nothing

PROPOSED = 5_000
"""Files sent with one request: the server reads the table's manifests once for each."""
SHOWN = 200
ANSWER_SECONDS = 900.0
"""The server may have many manifests to read before it answers."""
_METADATA = r"(?i)\.metadata\.json(\.gz)?$"


@dataclass
class OrphanTally:
    """The results so far."""

    files: int = 0
    bytes: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    first: list[QuarantinedFile] = field(default_factory=list)

    def add(self, answer: QuarantinedFiles) -> None:
        """Count one answer."""
        self.files += len(answer.quarantined)
        self.bytes += sum(file.bytes for file in answer.quarantined)
        self.kept.update(answer.kept)
        self.first += answer.quarantined[: SHOWN - len(self.first)]


def run(work: JobRun) -> Result:
    """Delete files whose quarantine is over; then list, compare and propose.

    If nothing proves that a directory is the table's own, a requested job fails. A scheduled one ends: if it failed,
    the planner would try again every hour, and list everything to be refused again.
    """
    task = OrphansTask.model_validate(work.lease.task)
    try:
        return _removed(work, task)
    except Refused as refused:
        if task.requested:
            raise
        work.keeper.say(str(refused))
        return Result(outcome=Outcome.NOTHING, result={"refused": str(refused)})


def _removed(work: JobRun, task: OrphansTask) -> Result:
    work.keeper.stage("ending what is overdue")
    deleted = _ended_overdue(work)
    work.keeper.stage("listing")
    files = _list_files(work, task).persist()
    try:
        seen = files.count()
        work.keeper.say(f"{seen} files listed")
        metadata_files = [row.path for row in files.where(_is_elsewhere_metadata(task)).select("path").collect()]
        work.keeper.stage("comparing with the metadata")
        tally = _propose_files(work, _candidates(work, task, files), metadata_files)
    finally:
        files.unpersist()
    return Result(outcome=Outcome.NOTHING, result=_build_result(task, tally, deleted, seen))


def _ended_overdue(work: JobRun) -> Counter[str]:
    """Files and bytes that have left the quarantine for good."""
    deleted, cursor = Counter[str](), None
    while True:
        answer = work.api.ask(work.lease, "orphans/overdue", {"cursor": cursor}, seconds=ANSWER_SECONDS)
        ended = Ended.model_validate(answer)
        deleted += Counter(deleted_files=ended.deleted_files, deleted_bytes=ended.deleted_bytes)
        cursor = ended.next_cursor
        if cursor is None:
            return deleted
        work.keeper.say(f"{deleted['deleted_files']} files of the quarantine deleted")
        work.keeper.check()


def _list_files(work: JobRun, task: OrphansTask) -> DataFrame:
    """Every file at the places, however old; hidden ones are left alone, as by all readers."""
    places = [table.location for table in task.tables]
    places += [place for place in (task.images, task.published) if place is not None and _is_there(work, place)]
    if task.unrepresentable is not None:
        work.keeper.say(f"what was published is left alone: {task.unrepresentable}")
    frames = [
        work.session.spark.read.format("binaryFile")
        .option("recursiveFileLookup", "true")
        .load(place)
        .select("path", F.unix_millis("modificationTime").alias("modified_ms"))
        for place in places
    ]
    union = frames[0]
    for frame in frames[1:]:
        union = union.unionAll(frame)
    return union.distinct()


def _is_there(work: JobRun, location: str) -> bool:
    """A table that was published without a row has no such directory, nor has one that nobody has read."""
    path = work.session.jvm.org.apache.hadoop.fs.Path(location)
    filesystem = path.getFileSystem(work.session.spark._jsc.hadoopConfiguration())
    return bool(filesystem.exists(path))


def _is_elsewhere_metadata(task: OrphansTask) -> Any:
    """What looks like metadata and is not in a directory that the server looks into by itself."""
    own = [re.escape(urlsplit(table.location).path.strip("/")) for table in task.tables]
    return F.col("path").rlike(_METADATA) & ~F.col("path").rlike(f"/({'|'.join(own)})/metadata/[^/]*$")


def _candidates(work: JobRun, task: OrphansTask, files: DataFrame) -> DataFrame:
    """Old files whose names the metadata does not name; compared by name, so that no spelling of a path matters."""
    old = files.where((F.col("modified_ms") > 0) & (F.col("modified_ms") < task.before_ms))
    candidates = old.withColumn("name", _name())
    for table in task.tables:
        loaded = work.api.load_table(work.lease, table.parts)
        needed = list_needed_files(work, work.session.table(table.parts).io(), loaded)
        candidates = candidates.join(needed.select(_name().alias("name")), "name", "left_anti")
    return candidates.select("path").orderBy("path")


def _name() -> Any:
    return F.lower(F.regexp_extract("path", r"[^/]*$", 0))


def _propose_files(work: JobRun, candidates: DataFrame, metadata_files: list[str]) -> OrphanTally:
    tally = OrphanTally()
    paths = (str(row.path) for row in candidates.toLocalIterator())
    for batch in _batches(paths):
        work.keeper.check()
        body = {"files": batch, "metadata_files": metadata_files}
        answer = QuarantinedFiles.model_validate(work.api.ask(work.lease, "orphans", body, seconds=ANSWER_SECONDS))
        tally.add(answer)
        work.keeper.say(f"{len(answer.quarantined)} of {len(batch)} files that nothing refers to")
    return tally


def _batches(paths: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(islice(paths, PROPOSED)):
        yield batch


def _build_result(task: OrphansTask, tally: OrphanTally, deleted: Counter[str], seen: int) -> dict[str, Any]:
    done = {
        "listed_files": seen,
        "orphan_files": tally.files,
        "orphan_bytes": tally.bytes,
        "kept": dict(tally.kept),
        "deleted_files": deleted["deleted_files"],
        "deleted_bytes": deleted["deleted_bytes"],
    }
    return done | {"dry_run": True, "orphans": [file.path for file in tally.first]} if task.dry_run else done


# It reads metadata by `list_needed_files`, which checks each state that it is given.
JOB = OptimizerJob(run, reads_nothing)
