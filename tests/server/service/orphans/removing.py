"""Tables with orphans, and an optimizer that proposes everything it finds: what is needed is for the server to see."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

from catalog.files.data_file import DataFileEntry, FileStats
from catalog.history.commit import TableCommit
from catalog.jobs.job import Job, JobKind
from catalog.jobs.leases import Lease
from catalog.names import TableName
from catalog.removal.orphan_removal import OrphanBatch, is_metadata
from firn.protocol.orphans import BatchState
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from server.service.orphans.orphan_removal import DeletedFiles, Orphans, QuarantinedBatch
from tests.factories import LAKE
from tests.server.lake import PLAIN, Lake
from tests.server.service.dropping import append_files, files_below, path_of

_ids = count(70_000)
OLD = timedelta(days=10).total_seconds()


def age(paths: Iterable[Path], seconds: float = OLD) -> None:
    """Let files have been written that long ago."""
    for path in paths:
        then = path.stat().st_mtime - seconds
        os.utime(path, (then, then))


def find_published_location(lake: Lake, name: TableName = PLAIN) -> str:
    location: str = lake.metadata(name)["location"]
    return location


def stray(lake: Lake, file: str, name: TableName = PLAIN, *, seconds: float = OLD) -> Path:
    """A file at the table's place that nothing refers to."""
    path = path_of(find_published_location(lake, name)) / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(f"rows of {file}".encode())
    age([path], seconds)
    return path


def everything(lake: Lake, name: TableName = PLAIN) -> list[Path]:
    return sorted(files_below(find_published_location(lake, name)))


def begun(lake: Lake, name: TableName = PLAIN, **params: Any) -> Lease:
    """A job that an optimizer has just been given."""
    lake.services.planner.run_now(LAKE, name, JobKind.REMOVE_ORPHANS, params)
    leased_job = lake.services.jobs.take(lake.optimizer(), [JobKind.REMOVE_ORPHANS])
    assert leased_job is not None
    return leased_job.lease


def job_of(lake: Lake, lease: Lease) -> Job:
    with lake.services.database.reading() as uow:
        return uow.jobs.get(lease.job_id)


def proposed(lake: Lake, lease: Lease, paths: Sequence[Path | str], orphans: Orphans | None = None) -> QuarantinedBatch:
    """All that an optimizer sends."""
    locations = [path if isinstance(path, str) else f"file://{path}" for path in paths]
    odd = [location for location in locations if is_metadata(location) and "/metadata/" not in location]
    return (orphans or lake.services.orphans).take(lease, locations, odd)


def ended(lake: Lake, lease: Lease) -> None:
    lake.services.jobs.report(lease, None, error=None, result={})


def removed(lake: Lake, name: TableName = PLAIN, **params: Any) -> QuarantinedBatch:
    """One whole job, as an optimizer would do it that thinks of nothing."""
    lease = begun(lake, name, **params)
    lake.services.orphans.end_overdue(lease)
    judged = proposed(lake, lease, everything(lake, name))
    ended(lake, lease)
    return judged


def overdue(lake: Lake, name: TableName = PLAIN) -> DeletedFiles:
    """The next job after the quarantine's time is over."""
    with lake.services.database.writing() as uow:
        for batch in uow.orphans.of_table(relation_id(lake, name), list(BatchState)):
            uow.orphans.put(replace(batch, taken_at=batch.taken_at - timedelta(days=30)))
    lease = begun(lake, name)
    done = lake.services.orphans.end_overdue(lease)
    files, size = done.deleted_files, done.deleted_bytes
    while done.next_cursor is not None:
        done = lake.services.orphans.end_overdue(lease, done.next_cursor)
        files, size = files + done.deleted_files, size + done.deleted_bytes
    ended(lake, lease)
    return DeletedFiles(deleted_files=files, deleted_bytes=size)


def relation_id(lake: Lake, name: TableName = PLAIN) -> Any:
    with lake.services.database.reading() as uow:
        relation = uow.relations.find(LAKE, name)
        assert relation is not None
        return relation.id


def batches(lake: Lake, name: TableName = PLAIN) -> Sequence[OrphanBatch]:
    with lake.services.database.reading() as uow:
        return uow.orphans.of_table(relation_id(lake, name), list(BatchState))


def aside(lake: Lake) -> set[bytes]:
    """What lies in the quarantine, but for the reports."""
    root = lake.warehouse / "_firn_quarantine"
    return {path.read_bytes() for path in root.rglob("*") if path.is_file() and not path.name.startswith("report")}


def names(judged: QuarantinedBatch) -> set[str]:
    return {file.location.rpartition("/")[2] for file in judged.quarantined}


def refer_to(lake: Lake, path: Path, name: TableName = PLAIN, *, spelled: str | None = None) -> None:
    """Commit a snapshot that names a file which has lain there for long."""
    metadata = lake.metadata(name)
    entry = DataFileEntry(stats=FileStats(location=spelled or f"file://{path}", size=1, record_count=1))
    snapshot_update = write_snapshot(
        Storage(), metadata, [entry], (), snapshot_id=next(_ids), now_ms=metadata["last-updated-ms"] + 1
    )
    lake.commit(TableCommit(name=name, requirements=snapshot_update.requirements(), updates=snapshot_update.updates()))


def fill_with_old_files(lake: Lake, name: TableName = PLAIN) -> set[Path]:
    """A table with two snapshots, all of whose files are old; the files."""
    lake.create(name)
    append_files(lake, name)
    append_files(lake, name)
    age(everything(lake, name))
    return set(everything(lake, name))
