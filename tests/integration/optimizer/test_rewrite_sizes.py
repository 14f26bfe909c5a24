"""Which files a rewrite takes, by Iceberg's planner over files that have a size and nothing else.

The cases are the published ones of Hudi's copy-on-write tables at a tenth of their sizes, 12 MiB for a file and 10 MiB
for a small one. There inserts are put into small files as they are written; here they lie beside them until a rewrite.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from firn.protocol.tasks.files import RewriteStrategy, RewriteTask
from optimizer.job_run import JobRun
from optimizer.jobs.rewrite import Plan, _Rewrite
from optimizer.spark import JobSession
from tests.spark_fixtures import hadoop_catalog

pytestmark = pytest.mark.spark
MIB = 2**20
NUMBERS = count()
TASK = RewriteTask(
    parts=["db", "t"],
    strategy=RewriteStrategy.BINPACK,
    sort_order=[],
    filter=None,
    target_file_size=12 * MIB,
    small_file_size=10 * MIB,
    min_files=2,
    max_delete_ratio=0.2,
    max_job_bytes=1_000 * MIB,
    everything=False,
)


def planned(directory: Path, *sizes: float, **changes: Any) -> Plan:
    """What a rewrite of files of these sizes, in MiB, takes."""
    spark = hadoop_catalog("firn_job", directory)
    name = f"t{next(NUMBERS)}"
    spark.sql(f"CREATE TABLE firn_job.db.{name} (id BIGINT) USING iceberg")
    session = JobSession(spark, "sizes")
    table = session.table(["db", name])
    append = table.newAppend()
    for number, size in enumerate(sizes):
        data = session.jvm.org.apache.iceberg.DataFiles.builder(table.spec()).withPath(f"{directory}/{number}.parquet")
        append.appendFile(data.withFileSizeInBytes(round(size * MIB)).withRecordCount(1).build())
    append.commit()
    lease = SimpleNamespace(own_locations=[directory.as_uri()])
    work = JobRun(cast("Any", None), cast("Any", lease), cast("Any", None), session)
    plan = _Rewrite(work, TASK.model_copy(update={"parts": ["db", name], **changes}), table).plan()
    assert plan.head is not None
    return replace(plan, head=None, groups_in_all=0)


def plan(groups: int, files: int, size: float) -> Plan:
    return Plan(None, groups, files, round(size * MIB))


def test_a_small_file_is_packed_with_what_came_after_it(tmp_path: Path) -> None:
    assert planned(tmp_path, 9.5, 1.5) == plan(1, 2, 11)


def test_a_big_file_gets_nothing_more(tmp_path: Path) -> None:
    assert planned(tmp_path, 11, 0.5) == plan(0, 0, 0)


def test_full_files_stay_and_their_rests_become_one(tmp_path: Path) -> None:
    """Three files in the end, as there: 11, 12 and what was left of both inserts."""
    assert planned(tmp_path, 11, 0.5, 12, 6) == plan(1, 2, 6.5)


def test_too_many_files_of_a_wrong_size_are_absorbed(tmp_path: Path) -> None:
    """Five of 2 from a wrong estimate, beside three full ones: one in the end."""
    assert planned(tmp_path, 2, 2, 2, 2, 1.5, 12, 12, 12) == plan(1, 5, 9.5)


def test_clustering_into_larger_files_takes_all_that_are_small_for_it(tmp_path: Path) -> None:
    sizes = (9.5, 12, 9.5, 12, 6.5)
    assert planned(tmp_path, *sizes, target_file_size=30 * MIB, small_file_size=20 * MIB) == plan(1, 5, 49.5)


def test_an_oversized_file_is_split(tmp_path: Path) -> None:
    assert planned(tmp_path, 30) == plan(1, 1, 30)
    assert planned(tmp_path, 20) == plan(0, 0, 0)


def test_a_job_is_bounded_by_the_bytes_of_its_groups(tmp_path: Path) -> None:
    plan = planned(tmp_path, *[4] * 10, max_job_bytes=16 * MIB)
    assert (plan.files, plan.left_files) == (4, 6)
