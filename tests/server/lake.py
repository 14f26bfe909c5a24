"""A catalog with tables over real metadata files, and engines that commit to it as Iceberg's clients do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, cast

from catalog.errors import RequirementFailed
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_snapshot, ref_snapshot_id
from catalog.jobs.job import Job, JobKind
from catalog.jobs.leases import Lease
from catalog.keyed.spec import KeyedTable, KeySpec
from catalog.names import TableName
from catalog.ports.store import Database
from firn.protocol.leases import PROTOCOL
from server.container import build_services
from server.service.commit.commit_path import CommitRequest, Committed
from server.service.optimizers.optimizers import Registration
from server.service.services import Services
from server.service.tables.tables import TableDefinition
from tests.factories import LAKE
from tests.server.asgi import Client, client_of
from tests.server.default_settings import settings_in
from tests.server.faults import FaultyDatabase

COLUMNS: Json = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "note", "type": "string", "required": False},
    ],
}
PLAIN = TableName(("db",), "plain")
ORDERS = TableName(("db",), "orders")
BASE = TableName(("db", "orders"), "base")
CHANGE = TableName(("db", "orders"), "change")
_ids = count(1_000)


@dataclass
class Lake:
    """One server's services over a catalog `lake` with namespace `db`."""

    services: Services
    database: FaultyDatabase
    warehouse: Path
    kinds: list[JobKind] = field(default_factory=lambda: list(JobKind))

    @cached_property
    def client(self) -> Client:
        """A client of a server with these services; take it once before threads do."""
        return client_of(self.services, settings_in(self.warehouse.parent / "data"))

    @cached_property
    def elsewhere(self) -> Lake:
        """Another server over the same database and warehouse."""
        return a_lake(self.database.real, self.warehouse.parent)

    def create(self, name: TableName = PLAIN, **properties: str) -> None:
        self.services.tables.create(LAKE, definition(name, **properties))

    def create_keyed(self, name: TableName = ORDERS, **properties: str) -> None:
        spec = KeySpec.from_properties({"firn.primary-key": "id", **properties})
        assert spec is not None
        self.services.keyed.create(LAKE, definition(name, **properties), spec)

    def metadata(self, name: TableName) -> Json:
        location = self.services.tables.load(LAKE, name).metadata_location
        assert location is not None
        return self.services.metadata.load(location).parsed

    def keyed(self, name: TableName = ORDERS) -> KeyedTable:
        return self.services.keyed.pin(LAKE, name).keyed

    def commit(self, *changes: TableCommit, **more: Any) -> list[Committed]:
        return self.services.committer.commit(CommitRequest(catalog=LAKE, changes=changes, **more))

    def append(self, name: TableName, rows: int = 10, **more: Any) -> int:
        """Append as an engine does: read again and try again while others are faster. Returns the snapshot id."""
        while True:
            change = appended(name, self.metadata(name), rows=rows, **more)
            try:
                self.commit(change)
            except RequirementFailed:
                continue
            return snapshot_of(change)

    def lease(self, kind: JobKind, name: TableName = ORDERS, *, committing: bool = True) -> Lease:
        """A job of a kind on a table, leased and, unless told otherwise, about to commit."""
        self.services.planner.run_now(LAKE, name, kind, {})
        leased_job = self.services.jobs.take(self.optimizer(), self.kinds)
        assert leased_job is not None
        if committing:
            self.services.jobs.begin_commit(leased_job.lease)
        return leased_job.lease

    def job(self, lease: Lease) -> Job:
        with self.services.database.reading() as uow:
            return uow.jobs.get(lease.job_id)

    def optimizer(self) -> str:
        return self.services.optimizers.register(
            Registration(group="default", host="host", pid=1, version="0", protocol=PROTOCOL)
        ).id

    def metadata_files(self) -> set[str]:
        return {path.name for path in self.warehouse.rglob("*.metadata.json")}


def a_lake(database: Database, directory: Path) -> Lake:
    """Services as the server builds them, over a database that can be told to fail."""
    warehouse = directory / "warehouse"
    faulty = FaultyDatabase(database)
    services = build_services(settings_in(directory / "data"), cast("Database", faulty))
    if not services.namespaces.catalogs():
        services.namespaces.create_catalog(LAKE, warehouse.as_uri(), None, {})
        services.namespaces.create(LAKE, ("db",), {})
    return Lake(services, faulty, warehouse)


def definition(name: TableName, **properties: str) -> TableDefinition:
    return TableDefinition(name=name, schema=COLUMNS, properties=properties)


def appended(
    name: TableName,
    metadata: Json,
    *,
    rows: int = 10,
    operation: str = "append",
    summary: Mapping[str, str] | None = None,
    parent: int | str | None = "head",
) -> TableCommit:
    """One new snapshot on main over the table as it was read."""
    head = current_snapshot(metadata)
    snapshot_id = next(_ids)
    snapshot: Json = {
        "snapshot-id": snapshot_id,
        "sequence-number": metadata["last-sequence-number"] + 1,
        "timestamp-ms": metadata["last-updated-ms"] + 1,
        "manifest-list": f"{metadata['location']}/metadata/snap-{snapshot_id}.avro",
        "schema-id": metadata["current-schema-id"],
        "summary": {**_summary(head, operation, rows), **(summary or {})},
    }
    above = (None if head is None else head["snapshot-id"]) if parent == "head" else parent
    snapshot |= {} if above is None else {"parent-snapshot-id": above}
    snapshot |= {"first-row-id": metadata["next-row-id"], "added-rows": rows} if metadata["format-version"] > 2 else {}
    updates: list[Json] = [
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
    ]
    requirements: list[Json] = [
        {"type": "assert-table-uuid", "uuid": metadata["table-uuid"]},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": ref_snapshot_id(metadata, "main")},
    ]
    return TableCommit(name=name, requirements=requirements, updates=updates)


def _summary(head: Json | None, operation: str, rows: int) -> dict[str, str]:
    """Of a snapshot with one file of so many rows, after the head of the table."""
    total = str((head or {}).get("summary", {}).get("total-records", 0))
    before = int(total) if total.isdecimal() else 0  # Java begins anew too, at a total that is no number
    return {
        "operation": operation,
        "added-records": str(rows),
        "added-data-files": "1",
        "added-files-size": str(rows * 100),
        "total-records": str(before + rows),
        "total-data-files": "1",
        "total-files-size": "1000",
    }


def merged(lake: Lake, **summary: str) -> TableCommit:
    """What a merge of everything that is pending commits to base."""
    base, change = lake.metadata(BASE), lake.metadata(CHANGE)
    head, read = ref_snapshot_id(base, "main"), current_snapshot(change)
    signed = {
        "firn.merged-from": str(lake.keyed().watermark),
        "firn.merged-through": str(0 if read is None else read["sequence-number"]),
        "firn.merged-base": "none" if head is None else str(head),
        "firn.merged-change": "none" if read is None else str(read["snapshot-id"]),
    }
    return appended(BASE, base, operation="overwrite", summary=signed | summary)


def altered(name: TableName, *updates: Json, requirements: Sequence[Json] = ()) -> TableCommit:
    return TableCommit(name=name, requirements=requirements, updates=updates)


def set_property(key: str, value: str) -> Json:
    return {"action": "set-properties", "updates": {key: value}}


def snapshot_of(change: TableCommit) -> int:
    snapshot_id: int = change.updates[0]["snapshot"]["snapshot-id"]
    return snapshot_id


def snapshot_ids(metadata: Json) -> list[int]:
    return [snapshot["snapshot-id"] for snapshot in metadata["snapshots"]]


def void(_value: object) -> None:
    """Forget a result: what others do meanwhile returns nothing."""
