"""The state of a job's table when the server builds the job's task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from catalog.errors import NoSuchTable
from catalog.iceberg.json import Json
from catalog.jobs.job import Job
from catalog.keyed.spec import BASE, KeyedTable
from catalog.names import TableName
from catalog.policy.policy import Policy
from catalog.tables.relation import Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """All facts that a task is built from. The server reads them in one transaction."""

    job: Job
    relation: Relation
    policy: Policy
    now: datetime
    """The database's clock, because the clocks of optimizers may differ."""
    keyed: KeyedTable | None
    metadata: Mapping[str, Json]
    """By store for a keyed table; under "" for a plain one."""
    needed: Mapping[str, frozenset[int]]
    """By store: the snapshots that readable versions name."""
    deletes_through: int = 0
    """The sequence number of the change store's newest commit whose merged deletes may be removed."""

    @property
    def main_store(self) -> tuple[TableName, Json]:
        """The table itself, or a keyed table's base store."""
        if self.keyed is None:
            return self.relation.name, self.metadata[""]
        return TableName(self.relation.name.as_namespace, BASE), self.metadata[BASE]

    @property
    def stores(self) -> Sequence[tuple[str, TableName, Json]]:
        """Each Iceberg table as (store, name, metadata); store is "" for a plain table."""
        name = self.relation.name
        return [
            (store, TableName(name.as_namespace, store) if store else name, metadata)
            for store, metadata in self.metadata.items()
        ]

    @property
    def keyed_table(self) -> KeyedTable:
        """The keyed table; NoSuchTable if the table is a plain one by now."""
        if self.keyed is None:
            raise NoSuchTable(f"{self.relation.name} is no keyed table any more")
        return self.keyed
