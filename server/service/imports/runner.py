"""Runs one import: lists the source once, then loads and settles each entry."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from catalog.errors import CatalogError, Conflict, LocationRefused, Unavailable
from catalog.imports.entry import Entry, FoundEntry
from catalog.imports.import_rules import Candidate, ImportAction, ImportRules, Verdict, find_warnings
from catalog.imports.spec import ImportSpec
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import Catalog, RelationKind
from firn.protocol.imports import EntryKind, EntryState
from server.service.imports.attempt import ImportAttempt
from server.service.imports.register import Registrar
from server.service.imports.sources import Source, check_entry
from server.service.tables.namespaces import ensure_within

LIST_BATCH = 200
REPORT_EVERY_SECONDS = 0.5
LOOK_BATCH = 32
LOOK_THREADS = 8


class SourceAway(Exception):
    """The source does not answer; the import continues later."""

    def __init__(self, error: Unavailable) -> None:
        super().__init__(error.message)
        self.message, self.hint = error.message, error.hint


class Halted(Exception):
    """This server is about to stop; the import goes on with the next start."""


@dataclass(frozen=True)
class ImportRunner:
    """One attempt at one import."""

    attempt: ImportAttempt
    spec: ImportSpec
    catalog: Catalog
    source: Source
    registrar: Registrar
    halted: threading.Event

    def list(self) -> None:
        """Record all entries of the source; after a crash, the listing starts again."""
        self.attempt.clear("listing the source")
        batch: list[Entry] = []
        reported_at = time.monotonic()
        for number, entry in enumerate(_raise_source_away(self.source.list_entries())):
            batch.append(self._build_entry(number, check_entry(entry)))
            if len(batch) >= LIST_BATCH or time.monotonic() - reported_at > REPORT_EVERY_SECONDS:
                self._check_not_halted()
                self.attempt.record_listing(batch)
                batch, reported_at = [], time.monotonic()
        self.attempt.record_listing(batch, self.source.notes)

    def settle_all(self) -> None:
        """Settle all open entries, in the order of the listing."""
        with ThreadPoolExecutor(LOOK_THREADS, thread_name_prefix="import") as pool:
            while True:
                with self.attempt.database.reading() as uow:
                    batch = uow.imports.waiting(self.attempt.operation_id, limit=LOOK_BATCH)
                if not batch:
                    return
                for entry, candidate in zip(batch, list(pool.map(self._inspect, batch)), strict=True):
                    self._check_not_halted()
                    self._settle(entry, candidate)

    def _check_not_halted(self) -> None:
        if self.halted.is_set():
            raise Halted

    def _build_entry(self, number: int, entry: FoundEntry) -> Entry:
        return Entry(
            operation_id=self.attempt.operation_id,
            number=number,
            kind=entry.kind,
            namespace=entry.namespace,
            name=entry.name,
            source=entry.source,
            state=entry.state,
            metadata_location=entry.metadata_location,
            reason=entry.reason,
            warnings=entry.warnings,
            properties=entry.properties,
        )

    def _inspect(self, entry: Entry) -> Candidate | CatalogError | None:
        """Its metadata, or why there is none; SourceAway when the source answers nobody."""
        if entry.kind is EntryKind.NAMESPACE:
            return None
        try:
            location = entry.metadata_location or self.source.locate(entry.kind, entry.namespace, entry.name)
        except Unavailable as error:
            self._check_source()
            return error  # the source answers, but not for this table
        except CatalogError as error:
            return error
        try:
            candidate = self.registrar.read(self.catalog.name, entry.table, location)
        except CatalogError as error:
            return error
        expected = RelationKind.VIEW if entry.kind is EntryKind.VIEW else RelationKind.TABLE
        if candidate.kind is not expected:
            return Conflict(f"{location} is the metadata of a {candidate.kind}, not of a {expected}")
        return candidate

    def _check_source(self) -> None:
        try:
            self.source.check()
        except Unavailable as error:
            raise SourceAway(error) from error

    def _settle(self, entry: Entry, candidate: Candidate | CatalogError | None) -> None:
        if isinstance(candidate, CatalogError):
            is_misplaced = isinstance(candidate, LocationRefused)
            state = EntryState.CONFLICT if is_misplaced else EntryState.FAILED
            self._refused(_undescribed(entry) if is_misplaced else entry, state, candidate)
            return
        try:
            if candidate is None:
                self._settle_namespace(entry)
            elif self.spec.dry_run:
                self._settle_dry(_described(entry, candidate, self.catalog), candidate)
            else:
                self._register(_described(entry, candidate, self.catalog), candidate)
        except Unavailable:
            raise  # The server's own database is away: nothing has changed, and the next activation continues.
        except CatalogError as error:
            self._refused(entry, _state_of(error), error)

    def _refused(self, entry: Entry, state: EntryState, error: CatalogError) -> None:
        with self.attempt.database.writing() as uow:
            self.attempt.settle(uow, replace(entry, state=state, reason=error.message, hint=error.hint))

    def _settle_namespace(self, entry: Entry) -> None:
        with self.attempt.database.writing() as uow:
            is_there = uow.namespaces.exists(self.catalog.name, entry.namespace)
            if not is_there and not self.spec.dry_run:
                ensure_within(uow, self.catalog.name, entry.namespace, entry.properties)
            state = EntryState.READY if self.spec.dry_run else EntryState.REGISTERED
            self.attempt.settle(uow, replace(entry, state=EntryState.THERE if is_there else state))

    def _register(self, entry: Entry, candidate: Candidate) -> None:
        def noted(uow: UnitOfWork, verdict: Verdict) -> Verdict:
            self.attempt.settle(uow, _apply_verdict(entry, verdict))
            return verdict

        self.registrar.register(self.catalog.name, entry.table, candidate, self._rules, noted)

    def _settle_dry(self, entry: Entry, candidate: Candidate) -> None:
        """Decide as `_register` does, with the results that earlier entries would have had."""
        _, verdict = self.registrar.judged(self.catalog.name, entry.table, candidate, self._rules)
        with self.attempt.database.writing() as uow:
            before = uow.imports.earlier(entry)
            settled = _apply_verdict(entry, verdict)
            if before is not None and verdict.act in (ImportAction.ADD, ImportAction.REPLACE):
                reason = f"{before.source or before.full_name} comes before it, as {before.full_name}"
                settled = replace(entry, state=EntryState.CONFLICT, reason=reason)
            elif verdict.act is not ImportAction.NOTHING:
                settled = replace(settled, state=EntryState.READY)
            self.attempt.settle(uow, settled)

    @property
    def _rules(self) -> ImportRules:
        return ImportRules(overwrite=self.spec.overwrite, refresh=self.spec.refresh)


def _described(entry: Entry, candidate: Candidate, catalog: Catalog) -> Entry:
    return replace(
        entry,
        metadata_location=candidate.metadata_location,
        uuid=candidate.header.uuid,
        location=candidate.header.location,
        warnings=(*entry.warnings, *find_warnings(candidate, catalog.warehouse)),
    )


def _undescribed(entry: Entry) -> Entry:
    """Of what lies where this catalog may have nothing, no more is told than that: it may be another's table."""
    return replace(entry, metadata_location=None, uuid=None, location=None, warnings=())


def _state_of(error: CatalogError) -> EntryState:
    return EntryState.CONFLICT if isinstance(error, Conflict | LocationRefused) else EntryState.FAILED


def _apply_verdict(entry: Entry, verdict: Verdict) -> Entry:
    if verdict.is_misplaced:
        entry = _undescribed(entry)
    return replace(entry, state=verdict.state, reason=verdict.reason, hint=verdict.hint)


def _raise_source_away(entries: Iterator[FoundEntry]) -> Iterator[FoundEntry]:
    """Yield the entries; raises SourceAway if the source does not answer."""
    while True:
        try:
            entry = next(entries)
        except StopIteration:
            return
        except Unavailable as error:
            raise SourceAway(error) from error
        yield entry
