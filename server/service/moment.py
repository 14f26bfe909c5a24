"""A job's table as it is when the lease is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from catalog.iceberg.json import Json
from catalog.job import Job
from catalog.keyed.spec import BASE, KeyedTable
from catalog.names import TableName
from catalog.policy.policy import Policy
from catalog.relation import Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What the facts of a lease are made from."""

    job: Job
    relation: Relation
    policy: Policy
    now: datetime
    """The database's clock: those of optimizers may differ."""
    keyed: KeyedTable | None
    metadata: Mapping[str, Json]
    """By store for a keyed table, under "" for a plain one."""
    needed: Mapping[str, frozenset[int]]
    deletes_through: int = 0
    """The change store's newest commit whose merged deletes need not be kept any more, by its sequence number."""

    @property
    def main_store(self) -> tuple[TableName, Json]:
        """The table itself, or a keyed one's base store."""
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
