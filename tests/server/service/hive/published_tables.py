"""Tables with merged changes, and leases of publish jobs."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.files.data_file import DataFileEntry
from catalog.history.commit import TableCommit
from catalog.iceberg.table import current_schema
from catalog.jobs.job import Job, JobKind
from catalog.jobs.leases import Lease
from catalog.tables.relation import Relation
from firn.protocol.leases import PROTOCOL
from server.files.locations import local_path
from server.service.commit.commit_path import CommitRequest
from server.service.hive.link_state import update_link
from server.service.optimizers.optimizers import Registration
from tests.factories import LAKE
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles
from tests.server.service.hive.synced_tables import relation_of


@dataclass
class Leased:
    """A publish job, and where its optimizer has written."""

    lease: Lease
    location: str
    rows: int


def merged(beside: BesideHive, table: HiveFiles, part: str, *ids: int) -> str:
    """Put another file in the place of a partition's, as a merge does; its location."""
    metadata = beside.metadata(table)
    assert metadata is not None
    files = beside.upgrades.files
    location = f"{beside.warehouse.as_uri()}/merged-{secrets.token_hex(4)}.parquet"
    write(location, *ids)
    [stats] = files.footers(current_schema(metadata), [location])
    gone = [live_file.location for live_file in files.live_files(metadata) if live_file.partition == (part,)]
    snapshot = files.write_snapshot(
        metadata,
        [DataFileEntry(stats=stats, partition=(part,))],
        gone,
        snapshot_id=secrets.randbits(62) + 1,
        now_ms=metadata["last-updated-ms"],
        summary_extra={"operation": "replace"},
    )
    change = TableCommit(
        name=beside.target_name(table), requirements=snapshot.requirements(), updates=snapshot.updates()
    )
    beside.services.committer.commit(CommitRequest(catalog=LAKE, changes=[change]))
    return location


def write(location: str, *ids: int) -> None:
    path = Path(str(local_path(location)))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([f"{n}" for n in ids], pa.string())}), path)


def leased(beside: BesideHive, table: HiveFiles, **rows: tuple[int, ...]) -> Leased:
    """A publish up to asking the server, its optimizer having written these ids by partition."""
    outcome = beside.publish_requests.publish(LAKE, table.name)
    assert outcome.job is not None, outcome.message
    about = Registration(group="default", host="here", pid=1, version=version("firn"), protocol=PROTOCOL)
    leased_job = beside.services.jobs.take(beside.services.optimizers.register(about).id, [JobKind.PUBLISH])
    assert leased_job is not None
    beside.services.jobs.begin_commit(leased_job.lease)
    location = f"{beside.services.tasks.build(leased_job.job).model_dump()['root']}/1"
    for part, ids in rows.items():
        write(f"{location}/p={part}/a.parquet", *ids)
    return Leased(leased_job.lease, location, sum(map(len, rows.values())))


def overwritten(table: HiveFiles) -> None:
    for path in (table.path / "p=x").iterdir():
        path.unlink()
    table.add("x", 6)


def dropped(table: HiveFiles) -> None:
    table.drop("x")


def active(beside: BesideHive, relation: Relation) -> Job:
    with beside.database.reading() as uow:
        job = uow.jobs.active_of(relation.id)
    assert job is not None
    return job


def note(beside: BesideHive, table: HiveFiles, **args: Any) -> None:
    relation = relation_of(beside, table)
    with beside.database.writing() as uow:
        update_link(uow, relation.id, lambda link: replace(link, **args))


def set_property(beside: BesideHive, table: HiveFiles, key: str, value: str) -> None:
    update = {"action": "set-properties", "updates": {key: value}}
    change = TableCommit(name=beside.target_name(table), requirements=[], updates=[update])
    beside.services.committer.commit(CommitRequest(catalog=LAKE, changes=[change]))
