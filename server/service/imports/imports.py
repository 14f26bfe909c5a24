"""Imports: a user starts one, and a background task runs it, so that a crash of the server only delays it."""

from __future__ import annotations

import secrets as random
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from uuid import uuid4

from catalog.errors import CatalogError, Conflict, LocationRefused, NotFound, Unavailable
from catalog.imports.entry import Entry
from catalog.imports.spec import ImportSpec, Secrets, check_spec_request
from catalog.jobs.operation import Operation, OperationId
from catalog.names import CatalogName
from catalog.ports.imports import Sealer
from catalog.ports.page import Page
from catalog.ports.store import Database, UnitOfWork
from firn.protocol.imports import EntryState, SourceKind
from firn.protocol.operations import OperationKind, OperationStatus
from server.service.imports.attempt import Canceled, ImportAttempt, Overtaken, is_due
from server.service.imports.register import Registrar
from server.service.imports.runner import Halted, ImportRunner, SourceAway
from server.service.imports.sources import Sources
from server.service.locations.allowed_locations import allow_locations, load_allowed_locations

AGAIN = "start the same import again later: registered tables stay and are not registered twice"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportStatus:
    """Counts of one activation."""

    finished: int = 0
    failed: int = 0
    waiting: int = 0


@dataclass(slots=True, kw_only=True)
class Signals:
    """`halted` ends running imports before the server stops; `poke` lets started ones begin at once."""

    halted: threading.Event = field(default_factory=threading.Event)
    leaves_traces: bool = True
    """Whether the database's log may still hold credentials of imports that have ended, also before this start."""
    poke: Callable[[], None] = field(default=lambda: None)


@dataclass(frozen=True)
class Imports:
    """Starts imports and carries them out."""

    database: Database
    sources: Sources
    registrar: Registrar
    sealer: Sealer
    signals: Signals = field(default_factory=Signals)

    def start(self, catalog: CatalogName, spec: ImportSpec, secrets: Secrets) -> Operation:
        """Note that tables are to be imported; Invalid for a source that makes no sense, Conflict while one runs.

        What the spec allows becomes an allowed location of the catalog here: the guard has asked for an administrator.
        """
        check_spec_request(spec, secrets)
        with self.database.writing() as uow:
            self._check_source(uow, catalog, spec)
            for running in uow.operations.unfinished():
                if (running.kind, running.catalog, running.target) == (OperationKind.IMPORT, catalog, spec.address):
                    raise Conflict(f"{spec.address} is being imported already", hint=f"operation {running.id}")
            now = uow.now()
            operation = Operation(
                id=OperationId(uuid4()),
                kind=OperationKind.IMPORT,
                catalog=catalog,
                target=spec.address,
                status=OperationStatus.RUNNING,
                created_at=now,
                updated_at=now,
                params=spec.to_json(),
                phase="waiting",
                unit="tables",
                result={"source": str(spec.kind), "dry_run": spec.dry_run},
            )
            uow.operations.add(operation)
            if secrets != Secrets():
                uow.imports.keep_secrets(operation.id, self.sealer.seal(operation.id, secrets))
        self.signals.poke()
        return operation

    def _check_source(self, uow: UnitOfWork, catalog: CatalogName, spec: ImportSpec) -> None:
        """Raise LocationRefused for a directory that the server may not read for this catalog."""
        allow_locations(uow, catalog, spec.allow)
        if spec.kind is SourceKind.WAREHOUSE:
            links = self.registrar.metadata.files
            try:
                load_allowed_locations(uow, links, catalog).check_source(spec.address, links)
            except LocationRefused as error:
                hint = f"an administrator allows it: `firn catalog allow {catalog} {spec.address}`, or --allow-source"
                raise LocationRefused(error.message, hint=hint) from error

    def resume(self, catalog: CatalogName, operation_id: OperationId) -> Operation:
        """Continue an import that waits for its source now; raises Conflict after its end."""
        with self.database.writing() as uow:
            operation = _import(uow, catalog, operation_id, lock=True)
            if operation.status.is_final:
                raise Conflict(f"the import of {operation.target} has {operation.status}", hint=AGAIN)
            journal = {key: value for key, value in operation.journal.items() if key != "retry_at"}
            operation = replace(operation, journal=journal)
            uow.operations.put(operation)
        self.signals.poke()
        return operation

    def entries(
        self,
        catalog: CatalogName,
        operation_id: OperationId,
        states: Collection[EntryState],
        *,
        limit: int,
        cursor: str | None,
    ) -> Page[Entry]:
        """List the entries of an import in their order; raises NotFound if the catalog has no such import."""
        with self.database.reading() as uow:
            _import(uow, catalog, operation_id)
            return uow.imports.list(operation_id, states=states, limit=limit, cursor=cursor)

    def activate(self) -> ImportStatus:
        """Run all started imports, also those of a server that died."""
        status = ImportStatus()
        with self.database.reading() as uow:
            now = uow.now()
            unfinished = [
                operation for operation in uow.operations.unfinished() if operation.kind is OperationKind.IMPORT
            ]
        for operation in unfinished:
            if not is_due(operation, now):
                status = replace(status, waiting=status.waiting + 1)
                continue
            ended = self._carried_on(operation)
            if ended is None:
                status = replace(status, waiting=status.waiting + 1)
            else:
                status = replace(status, finished=status.finished + ended, failed=status.failed + (not ended))
        self._leave_no_traces(status)
        return status

    def _leave_no_traces(self, status: ImportStatus) -> None:
        """Now, or at the next activation while somebody reads."""
        if status.finished or status.failed or self.signals.leaves_traces:
            self.signals.leaves_traces = not self.database.truncate_log()

    def _carried_on(self, operation: Operation) -> bool | None:
        """Whether the import has succeeded; None if it continues later, on this server or another."""
        attempt = ImportAttempt(self.database, operation.id, random.token_hex(8))
        try:
            try:
                self._run(attempt)
            except Canceled:
                attempt.end(OperationStatus.CANCELED, "canceled")
                return False
            except SourceAway as away:
                if attempt.wait(away.message, away.hint):
                    return None
                attempt.end(OperationStatus.FAILED, away.message, AGAIN)
                return False
            except Unavailable:
                raise  # The server's own database is away: the next activation continues here.
            except CatalogError as error:
                attempt.end(OperationStatus.FAILED, error.message, error.hint)
                return False
        except (Overtaken, Halted, Canceled):
            return None
        return True

    def _run(self, attempt: ImportAttempt) -> None:
        operation = attempt.begin()
        spec = ImportSpec.from_json(operation.params)
        with self.database.reading() as uow:
            catalog = uow.catalogs.get(operation.catalog)
            sealed = uow.imports.secrets(operation.id)
        secrets = Secrets() if sealed is None else self.sealer.unseal(operation.id, sealed)
        source = self.sources.of(spec, secrets)
        try:
            carrier = ImportRunner(attempt, spec, catalog, source, self.registrar, self.signals.halted)
            if not operation.journal.get("listed"):
                carrier.list()
            carrier.settle_all()
        finally:
            source.close()
        attempt.end(OperationStatus.SUCCEEDED)


def _import(uow: UnitOfWork, catalog: CatalogName, operation_id: OperationId, *, lock: bool = False) -> Operation:
    operation = uow.operations.lock(operation_id) if lock else uow.operations.get(operation_id)
    if operation.kind is not OperationKind.IMPORT or operation.catalog != catalog:
        raise NotFound(f"operation {operation_id} is no import into {catalog}")
    return operation
