"""Which files an optimizer may open for its job: facts that come with the lease, and answers while it lasts.

An optimizer opens with its own rights what metadata names, and users write metadata. It knows no rule: it compares
files with the directories of the job's own table, and asks here about all others (catalog.locations, decision 61).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from catalog.errors import LocationRefused
from catalog.iceberg.json import Json
from catalog.iceberg.reading import ref_snapshot_id
from catalog.job import JobKind, Lease, check_lease
from catalog.locations import FileRule, own_locations
from catalog.names import TableName
from catalog.places import canonical, lies_in
from catalog.ports.store import Database, UnitOfWork
from catalog.relation import Relation
from catalog.vending.storage import StorageConfig
from catalog.vending.storage import Vending as Mode
from server.service.facts import load_metadata
from server.service.locations import allowed_locations, kin, rule_in, storage_of
from server.service.metadata import MetadataFiles
from server.service.moment import Moment
from server.service.ownership import tables_of
from server.service.vending import Mechanism

MOST_DIRECTORIES = 50
"""That a lease tells of: a Hive table's partitions may lie in thousands, which the optimizer asks about instead."""
_NAMED = 64
"""Directories that one look-up names."""
_OF_HIVE = "the Hive table "


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedTable:
    """An Iceberg table that a job works on, and its head when the task was made."""

    name: TableName
    snapshot_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What an optimizer is told of its job's files."""

    tables: Sequence[LeasedTable]
    own_locations: Sequence[str]
    """Directories whose files it opens without asking, in regular spellings."""
    hive_table: str | None
    delegation: Sequence[Mechanism]
    """How the catalog gives access to files, where it does."""


@dataclass(frozen=True)
class LeasedFiles:
    """Safe to share between threads; reads the database anew for each answer."""

    database: Database
    metadata: MetadataFiles

    def facts(self, moment: Moment, task: Json) -> FileFacts:
        """What comes with a lease; LocationRefused when one of Hive's directories in the task is another table's."""
        with self.database.reading() as uow:
            relation = uow.relations.get(moment.job.relation_id)
            _check_alone(uow, relation, list(_hive_directories(moment.job.kind, task)))
            storage = storage_of(uow, relation.catalog)
            own = [place for table in tables_of(uow, relation) for place in self._own(uow, table)]
        stores = [LeasedTable(name=name, snapshot_id=ref_snapshot_id(one, "main")) for _, name, one in moment.stores]
        return FileFacts(
            tables=stores,
            own_locations=list(dict.fromkeys(own))[:MOST_DIRECTORIES],
            hive_table=relation.hive_name,
            delegation=_mechanisms(storage),
        )

    def check(self, lease: Lease, locations: Sequence[str]) -> None:
        """LocationRefused for the first directory or file that the job may not open; LeaseLost when its lease ended."""
        with self.database.reading() as uow:
            job = check_lease(uow.jobs.get(lease.job_id), lease)
            relation = uow.relations.get(job.relation_id)
            rules = [self._rule(uow, table) for table in tables_of(uow, relation)]
            if job.kind is JobKind.CONVERT:  # it opens no file that metadata names: this is where Hive's links lead
                _check_alone(uow, relation, locations)
                return
        refused: dict[str, LocationRefused] = {}
        left = list(locations)
        for rule in rules:  # what one store may name its sibling may, too
            refused = rule.refused(left)
            left = list(refused)
        for error in refused.values():
            raise error

    def _rule(self, uow: UnitOfWork, table: Relation) -> FileRule:
        return rule_in(uow, self.database, self.metadata.files, table, load_metadata(self.metadata, table))

    def _own(self, uow: UnitOfWork, table: Relation) -> Iterator[str]:
        """A table's directories that the rule lets it have, also by what links above the warehouse make of them."""
        links = self.metadata.files
        allowed = allowed_locations(uow, links, table.catalog)
        yield from self._rule(uow, table).given
        for place in (*own_locations(load_metadata(self.metadata, table)), *table.former_locations):
            with suppress(LocationRefused):  # of a table that is older than the rule: its files are asked about
                allowed.check_directory(place, links)
                yield place
                yield from sorted(allowed.aliases({canonical(place)}) - {canonical(place)})


def _check_alone(uow: UnitOfWork, relation: Relation, locations: Sequence[str]) -> None:
    """Whoever may alter a Hive table chooses its directories: none of them may be another table's of Firn's."""
    wanted = list(_outermost(locations))
    for at in range(0, len(wanted), _NAMED):
        others = uow.dropped.places_meeting(wanted[at : at + _NAMED], kin(relation), but_for_hive_of=relation)
        if any(not place.used_by.startswith(_OF_HIVE) for place in others):
            raise LocationRefused(
                f"Hive's files of {relation.name} lie in or around another table's directory, so no job reads them",
                hint="move the Hive table or its partition to a directory of its own",
            )


def _hive_directories(kind: JobKind, task: Json) -> Iterator[str]:
    if kind is JobKind.CONVERT:
        yield from (unit["location"] for unit in task["units"])
    elif kind is JobKind.SYNC:
        yield from {file["location"].rpartition("/")[0] for unit in task["units"] for file in unit["files"]}


def _outermost(directories: Iterable[str]) -> Iterator[str]:
    """Those that lie in no other of them: partitions mostly lie in few parents, of which one is asked about."""
    last: str | None = None
    for place in sorted({canonical(one) for one in directories}):
        if last is None or not lies_in(place, last):
            last = place
            yield place


def _mechanisms(storage: StorageConfig) -> list[Mechanism]:
    """Static keys are not scoped to a table: an optimizer's own do as well."""
    if storage.vending is Mode.STS:
        return [Mechanism.CREDENTIALS]
    return [Mechanism.SIGNING] if storage.signs else []
