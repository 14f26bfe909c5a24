"""Registers a table or view by its metadata: reads files outside of transactions, then decides and writes in one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from catalog.errors import Conflict, Invalid, LocationRefused, NotFound
from catalog.iceberg.formats import checked
from catalog.iceberg.view import check_view
from catalog.imports.import_rules import (
    Candidate,
    ExistingTable,
    ImportAction,
    ImportRules,
    Misplaced,
    Verdict,
    decide_import,
)
from catalog.imports.newest_metadata import Header, read_header, read_version_number
from catalog.imports.spec import check_source_location
from catalog.names import CatalogName, TableName
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Pointer, Relation, RelationKind
from server.service.commit.commit_target import check_namespace
from server.service.locations.location_rule import check_readable, check_registered, find_dropped_around, find_kin
from server.service.tables.metadata_files import MetadataFiles
from server.service.tables.relations import (
    NewTable,
    add_relation,
    first_stats,
    forget_relation,
    make_event,
    make_relation,
    refuse_worked_on,
)
from server.service.tables.views import add_view

ROUNDS = 5
AlsoThen = Callable[[UnitOfWork, Verdict], Verdict]
"""What becomes true in the same transaction; it may still turn the verdict down, and then nothing else is done."""


def _as_judged(_uow: UnitOfWork, verdict: Verdict) -> Verdict:
    return verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """What a verdict rests on; when it has changed, there is another verdict."""

    present: Relation | None
    misplaced: Misplaced | None


@dataclass(frozen=True)
class Registrar:
    """Registers tables and views by metadata that others have written."""

    database: Database
    metadata: MetadataFiles

    def read(self, catalog: CatalogName, name: TableName, metadata_location: str) -> Candidate:
        """Metadata that is to become this table or view of a catalog.

        LocationRefused when the file lies where the catalog may have none, NotFound when it is not there, Invalid when
        it is no metadata of a table or view.
        """
        check_source_location(metadata_location)
        with self.database.reading() as uow:
            present = uow.relations.find_name_holder(catalog, name)
            holders = [
                *find_dropped_around(uow, catalog, metadata_location),
                *([] if present is None else find_kin(present)),
            ]
            check_readable(uow, self.metadata.files, catalog, metadata_location, holders)
        metadata = self.metadata.load(metadata_location).parsed
        try:
            header = read_header(metadata)
            metadata = check_view(metadata) if header.is_view else checked(metadata)
        except Invalid as error:
            raise Invalid(f"{metadata_location} is no metadata of a table or view: {error.message}") from error
        return Candidate(metadata_location=metadata_location, metadata=metadata, header=header)

    def register(
        self,
        catalog: CatalogName,
        name: TableName,
        candidate: Candidate,
        rules: ImportRules,
        also: AlsoThen = _as_judged,
    ) -> Verdict:
        """Do what the verdict on the candidate says, and `also`, in one transaction.

        Conflict when the name's table is being worked on or changes faster than it can be looked at, NoSuchNamespace
        when its namespace is not there; CommitUnknown as of any transaction.
        """
        for _ in range(ROUNDS):
            seen, verdict = self.judged(catalog, name, candidate, rules)
            with self.database.writing() as uow:
                if self._seen(uow, catalog, name, candidate) != seen:
                    continue
                verdict = also(uow, verdict)
                self._do(uow, catalog, name, candidate, verdict, seen.present)
            return verdict
        raise Conflict(f"other requests change {name} too fast", hint="try again")

    def _do(
        self,
        uow: UnitOfWork,
        catalog: CatalogName,
        name: TableName,
        candidate: Candidate,
        verdict: Verdict,
        present: Relation | None,
    ) -> None:
        if verdict.act is ImportAction.NOTHING:
            return
        check_namespace(uow, catalog, name.namespace)
        if verdict.act is ImportAction.REFRESH:
            assert present is not None  # a refreshed table exists
            _follow(uow, present, candidate)
            return
        if present is not None:
            forget_relation(uow, self.metadata, present, "overwritten")
        if candidate.kind is RelationKind.VIEW:
            add_view(
                uow,
                self.metadata.files,
                catalog,
                name,
                candidate.metadata,
                candidate.metadata_location,
                is_foreign=True,
            )
            return
        version = read_version_number(candidate.metadata_location)
        new = NewTable(
            name=name, kind=RelationKind.TABLE, metadata=candidate.metadata, version=version, is_foreign=True
        )
        add_relation(uow, self.metadata.files, catalog, new, candidate.metadata_location, is_checked=True)

    def judged(
        self, catalog: CatalogName, name: TableName, candidate: Candidate, rules: ImportRules
    ) -> tuple[_Target, Verdict]:
        """Decide without a change, and return the facts on which the decision rests."""
        with self.database.reading() as uow:
            seen = self._seen(uow, catalog, name, candidate)
        present = (
            None if seen.present is None else ExistingTable(relation=seen.present, header=self._header(seen.present))
        )
        return seen, decide_import(candidate, present, seen.misplaced, rules)

    def _seen(self, uow: UnitOfWork, catalog: CatalogName, name: TableName, candidate: Candidate) -> _Target:
        present = uow.relations.find_name_holder(catalog, name)
        return _Target(present=present, misplaced=self._misplaced(uow, catalog, name, candidate, present))

    def _misplaced(
        self, uow: UnitOfWork, catalog: CatalogName, name: TableName, candidate: Candidate, present: Relation | None
    ) -> Misplaced | None:
        if present is not None and present.metadata_location == candidate.metadata_location:
            return None  # it is there
        new = NewTable(name=name, kind=candidate.kind, metadata=candidate.metadata)
        relation = make_relation(catalog, new, candidate.metadata_location, uow.now())
        holders = [
            *find_dropped_around(uow, catalog, candidate.metadata_location),
            *([] if present is None else find_kin(present)),
        ]
        try:
            check_registered(
                uow, self.metadata.files, relation, candidate.metadata, candidate.metadata_location, holders
            )
        except LocationRefused as error:
            return Misplaced(error.message, error.hint)
        return None

    def _header(self, relation: Relation) -> Header | None:
        """Of what has the name; None when it has no metadata, or none that can be read: it is another table then."""
        if relation.metadata_location is None:
            return None
        try:
            return read_header(self.metadata.load(relation.metadata_location).parsed)
        except (NotFound, Invalid):
            return None


def _follow(uow: UnitOfWork, present: Relation, candidate: Candidate) -> None:
    """Set the table to the source's current metadata."""
    refuse_worked_on(uow, present.id)
    now = uow.now()
    to = Pointer(candidate.metadata_location, candidate.header.location)
    if not uow.relations.move_pointer(present, to, now):
        raise Conflict(f"somebody has just committed to {present.name}", hint="try again")
    event = make_event(present, "refresh", now)
    uow.events.add(event)
    epoch = uow.stats.get(present.id).epoch + 1  # the counts of the old files are no longer valid
    uow.stats.put(first_stats(present, candidate.metadata, event, epoch=epoch), plan_after=now)
