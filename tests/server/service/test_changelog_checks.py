"""Flink's changelogs in a change store: what the bounds of `_op` in the manifests of its commits tell."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from catalog.files.data_file import DataFileEntry, FileStats
from catalog.history.commit import TableCommit
from catalog.iceberg.reading import current_schema
from firn.protocol.answers.logs import SuspectedChangelogOut
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from tests.server.lake import CHANGE, Lake

LOG: dict[str, Any] = {"firn.log.topic": "t", "firn.log.brokers": "127.0.0.1:1", "firn.log.format": "firn-json"}
AT = "/api/v1/catalogs/lake/tables/db.orders/log"
_ids = count(70_000)


def commit(lake: Lake, *ops: str | None, job: str = "j1", **summary: str) -> int:
    """A commit to the change store with a file for each range of operations, such as `U` or `DU`."""
    metadata, snapshot_id = lake.metadata(CHANGE), next(_ids)
    column = next(field["id"] for field in current_schema(metadata)["fields"] if field["name"] == "_op")
    bounds = [None if op is None else (op[0].encode(), op[-1].encode()) for op in ops]
    files = [
        DataFileEntry(
            stats=FileStats(
                location=f"{metadata['location']}/data/{next(_ids)}.parquet",
                size=1000,
                record_count=10,
                lower_bounds={} if bound is None else {column: bound[0]},
                upper_bounds={} if bound is None else {column: bound[1]},
            ),
            partition=(),
        )
        for bound in bounds
    ]
    written = write_snapshot(
        Storage(),
        metadata,
        files,
        (),
        snapshot_id=snapshot_id,
        now_ms=metadata["last-updated-ms"] + 1,
        summary_extra={"flink.job-id": job, **summary},
    )
    lake.commit(TableCommit(name=CHANGE, requirements=written.requirements(), updates=written.updates()))
    return snapshot_id


def suspected(lake: Lake) -> list[SuspectedChangelogOut]:
    answer = lake.client.get(f"{AT}/suspected-changelogs")
    assert answer.status_code == 200, answer.text
    return [SuspectedChangelogOut.read(row) for row in answer.json()]


def test_a_job_whose_commits_have_one_operation_only_is_suspected(lake: Lake) -> None:
    lake.create_keyed(**LOG)
    assert suspected(lake) == []
    commit(lake, "U")
    newest = commit(lake, "U", "U", job="j1")
    (changelog,) = suspected(lake)
    assert (changelog.job, changelog.op, changelog.commits) == ("j1", "U", 2)
    assert changelog.snapshot_id == str(newest)
    assert "deleted rows come back" in changelog.message
    findings = lake.client.get(f"{AT}/check").json()["findings"]
    assert {"severity": "warning", "message": changelog.message} in findings, "though Kafka does not answer"
    commit(lake, "U", "DD")
    assert suspected(lake) == [], "the job sends deletes, too"


@pytest.mark.parametrize(
    ("ops", "summary"),
    [
        (("DU",), {}),
        (("I", "U"), {}),
        (("D",), {}),
        ((None,), {}),
        (("U", None), {}),
        ((), {}),
        (("U",), {"firn.writer-id": "flink j1", "firn.batch-id": "7 abc"}),  # under the table's own name
    ],
    ids=["range", "two files", "deletes", "no bounds", "a file without bounds", "no rows", "through the table"],
)
def test_no_other_commit_is_suspected(lake: Lake, ops: tuple[str | None, ...], summary: dict[str, str]) -> None:
    lake.create_keyed(**LOG)
    commit(lake, *ops, **summary)
    assert suspected(lake) == []


def test_commits_that_nobody_can_read_are_no_reason_for_a_warning(lake: Lake) -> None:
    lake.create_keyed(**LOG)
    commit(lake, "U")
    for path in lake.warehouse.rglob("*-m*.avro"):
        path.write_bytes(b"no manifest")
    assert suspected(lake) == []


def test_few_jobs_are_looked_at(lake: Lake) -> None:
    lake.create_keyed(**LOG)
    for number in range(7):
        commit(lake, "U", job=f"j{number}")
    assert [changelog.job for changelog in suspected(lake)] == ["j6", "j5", "j4", "j3", "j2"]


def test_a_table_without_a_log_has_no_such_list(lake: Lake) -> None:
    lake.create_keyed()
    commit(lake, "U")
    answer = lake.client.get(f"{AT}/suspected-changelogs")
    assert answer.status_code == 404
