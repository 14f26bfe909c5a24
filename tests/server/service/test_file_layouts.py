"""One number has one source: Health, Layout, lists, predictions and dry runs say the same of any table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from catalog.history.commit import TableCommit
from catalog.jobs.job import JobKind, JobOutcome
from catalog.names import TableName
from firn.protocol.tasks.files import RewriteTask
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from tests.factories import LAKE
from tests.server.lake import PLAIN, Lake
from tests.server.service.dry_runs.day_tables import MIB, TODAY, a_file, make, write
from tests.server.service.file_layouts import URL, settle

_ids = count(7_000_000)


def health(lake: Lake) -> str:
    parts = lake.client.get(f"{URL}/{PLAIN}/health").json()["parts"]
    return str(next(health_part["detail"] for health_part in parts if health_part["part"] == "small-files"))


def reason(lake: Lake) -> str:
    return str(lake.client.get(f"{URL}/{PLAIN}/explain").json()["reason"])


def rewrite(lake: Lake) -> Any:
    return lake.client.post(f"{URL}/{PLAIN}/jobs", json={"kind": "rewrite"}).json()


def test_365_partitions_of_one_file_are_promised_nothing_and_planned_nothing(lake: Lake) -> None:
    make(lake)
    write(lake, [a_file(TODAY - day) for day in range(365)])
    settle(lake)
    assert health(lake) == "365 of 365 files small, 0 can be packed (a rewrite is due at 20)"
    assert "of 365 small files 0 can be packed" in reason(lake)
    listed = lake.client.get(URL).json()["items"][0]
    assert (listed["small_files"], listed["packable_files"]) == (365, 0)
    with lake.services.database.reading() as uow:
        assert uow.jobs.last_of_each_kind(listed_id(lake), limit=9) == []
    job = rewrite(lake)
    assert (job["status"], job["outcome"], job["owner"]) == ("succeeded", "nothing to do", None)


def listed_id(lake: Lake) -> Any:
    with lake.services.database.reading() as uow:
        relation = uow.relations.find(LAKE, PLAIN)
    assert relation is not None
    return relation.id


def test_a_replace_that_removes_files_leaves_the_others_small(lake: Lake) -> None:
    """A publish replaces a few files: the count of all others began anew at nothing."""
    make(lake)
    some, others = [a_file(TODAY) for _ in range(3)], [a_file(TODAY) for _ in range(15)]
    write(lake, [*some, *others])
    settle(lake)
    replaced(lake, [a_file(TODAY)], some)
    settle(lake)
    assert health(lake).startswith("16 of 16 files small, 16 can be packed")


def replaced(lake: Lake, added: Sequence[Any], removed: Sequence[Any]) -> None:
    metadata = lake.metadata(PLAIN)
    gone = [entry.stats.location for entry in removed]
    snapshot_update = write_snapshot(
        Storage(), metadata, added, gone, snapshot_id=next(_ids), now_ms=metadata["last-updated-ms"] + 1
    )
    snapshot = {**snapshot_update.snapshot, "summary": {**snapshot_update.snapshot["summary"], "operation": "replace"}}
    lake.commit(
        TableCommit(
            name=PLAIN,
            requirements=snapshot_update.requirements(),
            updates=replace(snapshot_update, snapshot=snapshot).updates(),
        )
    )


def test_18_files_in_6_partitions_get_the_rewrite_that_packs_them(lake: Lake) -> None:
    make(lake)
    write(lake, [a_file(TODAY - day) for day in range(6) for _ in range(3)])
    settle(lake)
    with lake.services.database.reading() as uow:
        (job,) = uow.jobs.last_of_each_kind(listed_id(lake), limit=9)
    assert (job.kind, job.predicted["files_before"], job.predicted["files_after"]) == (JobKind.REWRITE, 18, 6)
    task = lake.services.tasks.build(job)
    assert isinstance(task, RewriteTask)
    assert task.min_files == 2  # or it would find nothing to do


def test_a_count_that_a_commit_has_overtaken_plans_nothing_and_is_made_again(lake: Lake) -> None:
    make(lake)
    files = [a_file(TODAY) for _ in range(30)]
    write(lake, files)
    lake.services.planner_loop.run_once()
    held = lake.services.file_layouts
    subject = held._load_subject(listed_id(lake))
    assert subject is not None
    layout = held._count_files(subject)
    write(lake, [], files[5:])  # meanwhile somebody else deletes
    with lake.services.database.writing() as uow:
        uow.layouts.put(listed_id(lake), layout, uow.now())
    assert lake.services.planner_loop.run_once().planned == 0
    assert "its files are being counted" in reason(lake)
    settle(lake)
    assert health(lake).startswith("5 of 5 files small, 5 can be packed")


def test_a_hot_table_is_planned_for_by_what_was_counted_before_its_last_appends(lake: Lake) -> None:
    make(lake)
    write(lake, [a_file(TODAY) for _ in range(30)])
    lake.services.planner_loop.run_once()
    lake.services.file_layouts.run_once()
    write(lake, [a_file(TODAY)])
    assert lake.services.planner_loop.run_once().planned == 1


def test_a_server_that_dies_before_it_has_stored_a_count_leaves_it_to_be_made(lake: Lake) -> None:
    make(lake)
    write(lake, [a_file(TODAY)])
    lake.services.planner_loop.run_once()
    subject = lake.services.file_layouts._load_subject(listed_id(lake))
    assert subject is not None
    lake.services.file_layouts._count_files(subject)  # and is killed
    assert lake.elsewhere.services.file_layouts.run_once().counted == 1
    assert health(lake).startswith("1 of 1 file small")


def test_manifests_that_cannot_be_read_stop_no_other_tables_count(lake: Lake) -> None:
    other = TableName(("db",), "broken")
    lake.create(other)
    lake.append(other)  # whose manifest list nobody has written
    make(lake)
    write(lake, [a_file(TODAY)])
    lake.services.planner_loop.run_once()
    done = lake.services.file_layouts.run_once()
    assert (done.counted, done.unreadable) == (1, 1)
    assert lake.services.file_layouts.run_once() == type(done)()
    assert lake.client.get(f"{URL}/{other}").json()["small_files"] is None


def test_what_counts_as_small_follows_the_policy_at_once(lake: Lake) -> None:
    make(lake)
    write(lake, [a_file(TODAY, size=50 * MIB) for _ in range(6)])
    settle(lake)
    assert health(lake).startswith("6 of 6 files small")
    lake.services.policies.replace(LAKE, ("db",), {"firn.rewrite.small-file-size": "10 MiB"})
    settle(lake)
    assert health(lake).startswith("0 of 6 files small, 0 can be packed")


def test_a_dropped_table_has_no_count_any_more_and_none_is_made(lake: Lake) -> None:
    make(lake)
    write(lake, [a_file(TODAY)])
    settle(lake)
    write(lake, [a_file(TODAY)])
    lake.services.planner_loop.run_once()
    lake.services.drop(LAKE, PLAIN)
    assert lake.services.file_layouts.run_once().counted == 0
    with lake.services.database.reading() as uow:
        assert uow.layouts.list_requested(uow.now(), limit=9) == []


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        (JobKind.REWRITE, JobOutcome.NOTHING_TO_DO),
        (JobKind.MERGE, JobOutcome.NOTHING_TO_DO),
        (JobKind.KEYS, JobOutcome.DONE),
    ],
)
def test_a_job_that_has_changed_nothing_says_that_there_was_nothing_to_do(
    lake: Lake, kind: JobKind, outcome: JobOutcome
) -> None:
    lake.create_keyed()
    lease = lake.lease(kind, committing=False)
    assert lake.client.get(f"/api/v1/jobs/{lease.job_id}").json()["outcome"] is None
    lake.services.jobs.report(lease, None, error=None, result={})
    assert lake.client.get(f"/api/v1/jobs/{lease.job_id}").json()["outcome"] == outcome
