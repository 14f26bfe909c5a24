"""The state of a job's table at the moment at which its task is built."""

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
    """Everything that a task is built from; the server reads it in one transaction."""

    job: Job
    relation: Relation
    policy: Policy
    now: datetime
    """The database's clock: the clocks of optimizers may differ."""
    keyed: KeyedTable | None
    metadata: Mapping[str, Json]
    """By store for a keyed table, under "" for a plain one."""
    needed: Mapping[str, frozenset[int]]
    """By store: the snapshots that versions still offered to readers name."""
    deletes_through: int = 0
    """The change store's newest commit whose merged deletes need not be kept any more, by its sequence number."""

    @property
    def main_store(self) -> tuple[TableName, Json]:
        """The table itself, or a keyed table's base store."""
        if self.keyed is None:
            return self.relation.name, self.metadata[""]
        return TableName(self.relation.name.as_namespace, BASE), self.metadata[BASE]

    @property
    def stores(self) -> Sequence[tuple[str, TableName, Json]]:
        """Each Iceberg table with the store that it is ("" for a plain table), its name and its metadata."""
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
