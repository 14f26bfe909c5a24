"""Text tables, and the job that converts them."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from importlib.metadata import version

from catalog.files.data_file import DataFileEntry
from catalog.history.commit import TableCommit
from catalog.hive.conversion_commit import ROWS_READ
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from catalog.jobs.job import Job, JobKind
from catalog.jobs.leases import Lease
from catalog.names import TableName
from catalog.tables.relation import Relation
from firn.protocol.leases import PROTOCOL
from server.service.commit.commit_path import CommitRequest, Committer
from server.service.optimizers.optimizers import Registration
from tests.factories import LAKE
from tests.hive_tables import TEXT, a_hive_partition, a_hive_table, a_storage
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles, aged, uri
from tests.server.service.hive.published_tables import write

INPUT = "org.apache.hadoop.mapred.TextInputFormat"


def text_table(beside: BesideHive, columns: str = "id bigint; v string", **serde: str) -> HiveFiles:
    """A table of text: two partitions, one of them of a null."""
    hive_files = HiveFiles(beside, f"text{next(beside.numbers)}")
    storage = a_storage(uri(hive_files.path), columns, serde=TEXT, input_format=INPUT, serde_parameters=serde)
    parameters = {"skip.header.line.count": "1"}
    table = a_hive_table(name=hive_files.short, storage=storage, partitioned_by="p string", parameters=parameters)
    beside.metastore.add_table(table)
    for value in ("x", "__HIVE_DEFAULT_PARTITION__"):
        directory = hive_files.path / f"p={value}"
        directory.mkdir(parents=True)
        (directory / "000000_0").write_text("id,v\n1,one\n")
        aged(directory / "000000_0", 1_700_000_000 * 10**9)
        beside.metastore.add_partition(
            "db", hive_files.short, a_hive_partition(value, storage=replace(storage, location=uri(directory)))
        )
    return hive_files


def relation_of(beside: BesideHive, name: TableName) -> Relation:
    with beside.database.reading() as uow:
        relation = uow.relations.find(LAKE, name)
    assert relation is not None
    return relation


def metadata_of(beside: BesideHive, name: TableName) -> Json:
    metadata: Json = beside.services.metadata.load(relation_of(beside, name).metadata_location or "").parsed
    return metadata


def rows(beside: BesideHive, name: TableName) -> list[str]:
    """How many rows each snapshot has brought."""
    return [snapshot["summary"]["added-records"] for snapshot in metadata_of(beside, name)["snapshots"]]


def task_of(beside: BesideHive, job: Job) -> Json:
    return (
        replace(beside.services.tasks, looks={JobKind.CONVERT: beside.conversions.task})
        .build(job)
        .model_dump(mode="json")
    )


@dataclass
class Optimizer:
    """The optimizer's part: it takes the job, reads what it is told and commits what it has written."""

    beside: BesideHive

    def take(self) -> tuple[Lease, Json]:
        beside = self.beside
        about = Registration(group="default", host="here", pid=1, version=version("firn"), protocol=PROTOCOL)
        leased_job = beside.services.jobs.take(beside.services.optimizers.register(about).id, [JobKind.CONVERT])
        assert leased_job is not None
        return leased_job.lease, task_of(beside, leased_job.job)

    def written(self, task: Json, *, counted: int = 2, operation: str = "append") -> TableCommit:
        name = TableName(tuple(task["parts"][:-1]), task["parts"][-1])
        metadata = metadata_of(self.beside, name)
        location = f"{metadata['location']}/data/{secrets.token_hex(4)}.parquet"
        write(location, 1, 2)
        [stats] = self.beside.upgrades.files.footers(current_schema(metadata), [location])
        marks = {ROWS_READ: str(counted), "firn.writer-id": task["writer"], "firn.batch-id": task["batch"]}
        snapshot = self.beside.upgrades.files.write_snapshot(
            metadata,
            [DataFileEntry(stats=stats, partition=("x",))],
            [],
            snapshot_id=secrets.randbits(62) + 1,
            now_ms=metadata["last-updated-ms"],
            summary_extra=marks | {"operation": operation},
        )
        return TableCommit(name=name, requirements=snapshot.requirements(), updates=snapshot.updates())

    def commit(self, lease: Lease, change: TableCommit, committer: Committer | None = None) -> None:
        self.beside.services.jobs.begin_commit(lease)
        request = CommitRequest(catalog=LAKE, changes=[change], lease=lease)
        (committer or self.beside.services.committer).commit(request)

    def work(self) -> None:
        lease, task = self.take()
        self.commit(lease, self.written(task))
        self.beside.services.jobs.report(lease, outcome=None, error=None, result={"rows": 2})
