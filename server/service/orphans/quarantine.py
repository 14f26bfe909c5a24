"""Batches of orphans: the server reports them, moves them to quarantine, and puts them back or deletes them.

For each batch the server adds a row, writes the report, moves the files and then updates the row. If it dies between
two steps, the storage shows how far it came: the next server counts only the files that lie in quarantine.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import UUID, uuid4

import orjson

from catalog.errors import AlreadyExists, Conflict, NotFound
from catalog.iceberg.json import Json
from catalog.jobs.job import JobId
from catalog.jobs.leases import Lease, check_lease
from catalog.names import RelationId
from catalog.ports.files import Files
from catalog.ports.orphans import QuarantineFiles
from catalog.ports.store import Database, UnitOfWork
from catalog.removal.orphan_removal import OrphanBatch, ReportedFile, SeenFile
from catalog.tables.relation import Relation
from firn.protocol.locations import normalize_location
from firn.protocol.orphans import BatchState
from server.service.locations.ownership import SHARED, explain_published_not_own
from server.service.orphans.context import OrphanContext

log = logging.getLogger(__name__)

_THREADS = 16
T = TypeVar("T")
R = TypeVar("R")

HELD = (BatchState.MOVING, BatchState.ASIDE, BatchState.NOTED)

Check = Callable[[Sequence[Relation], Collection[str]], Collection[str]]
"""Returns the locations, out of those given, that the current state of the tables needs."""


@dataclass(frozen=True)
class Quarantine:
    """The orphans of all tables; several servers may use it at once."""

    database: Database
    files: QuarantineFiles
    reports: Files

    def take(
        self, lease: Lease, context: OrphanContext, files: Sequence[SeenFile], *, moves: bool, needed: Check
    ) -> None:
        """Move one batch to quarantine; without `moves`, for a store that cannot rename, only note it.

        Raises LeaseLost when the lease has ended, and Conflict when the table does not own its locations any more; the
        server moves nothing then. During the move no request can add a table or take the lease away.
        """
        directory = f"{context.job_directory}/{uuid4()}"
        reported = [
            ReportedFile(file, f"{directory}/{number:04d}-{_get_base_name(file.location)}" if moves else None)
            for number, file in enumerate(files)
        ]
        batch = self._add_batch(lease, context, directory)
        self.reports.write_new(batch.report, _build_report(context, reported))
        with self.database.writing() as uow:
            uow.catalogs.hold_all()
            check_lease(uow.jobs.lock(lease.job_id), lease)
            batch = _lock_in_state(uow, batch, BatchState.MOVING)
            tables = [uow.relations.get(table.id) for table in context.tables]
            _check_no_neighbours(uow, context)
            kept = needed(tables, [file.location for file in files])
            moved = [line for line in reported if line.file.location not in kept and self._set_aside(line)]
            self._record_batch(uow, batch, reported, moved)

    def _add_batch(self, lease: Lease, context: OrphanContext, directory: str) -> OrphanBatch:
        batch = OrphanBatch(
            id=uuid4(),
            catalog=context.relation.catalog,
            relation_id=context.relation.id,
            job_id=context.job.id,
            state=BatchState.MOVING,
            report=f"{directory}/report.json",
            files=0,
            bytes=0,
            taken_at=context.now,
        )
        with self.database.writing() as uow:
            check_lease(uow.jobs.lock(lease.job_id), lease)
            uow.orphans.add(batch)
        return batch

    def _set_aside(self, line: ReportedFile) -> bool:
        """Take one file; False when it is gone, or has changed since the check, because then it is another file.

        A client of HDFS that got no answer repeats a rename, and the name node then misses the file that it has moved.
        """
        (now,) = self.files.inspect([line.file.location])
        if now is None or not now.same_as(line.file):
            return False
        try:
            if line.aside is not None:
                self.files.move(line.file.location, line.aside)
        except NotFound:  # its writer has just deleted it, or the first of two renames has moved it
            return line.aside is not None and self.files.is_moved(line.file.location, line.aside)
        return True

    def _record_batch(
        self, uow: UnitOfWork, batch: OrphanBatch, reported: Sequence[ReportedFile], moved: Sequence[ReportedFile]
    ) -> None:
        """Update the row of a batch with the files that were taken; remove the row when there are none."""
        if moved:
            uow.orphans.put(self._finish_batch(batch, reported, moved))
        else:
            uow.orphans.remove(batch.id)

    def _finish_batch(
        self, batch: OrphanBatch, reported: Sequence[ReportedFile], set_aside: Sequence[ReportedFile]
    ) -> OrphanBatch:
        """The final state of a batch; writes a new report when not all files were taken."""
        if len(set_aside) < len(reported):
            directory = batch.report.rpartition("/")[0]
            report = self._read_report(batch) | {"files": [line.to_json() for line in set_aside]}
            batch = replace(batch, report=f"{directory}/report-{uuid4()}.json")
            self.reports.write_new(batch.report, orjson.dumps(report))
        moved = any(line.aside is not None for line in reported)
        state = BatchState.ASIDE if moved else BatchState.NOTED
        return replace(batch, state=state, files=len(set_aside), bytes=sum(line.file.bytes for line in set_aside))

    def recover(self, relation_id: RelationId) -> None:
        """Finish the rows of batches whose server has died; files that it had not moved stay where they are."""
        with self.database.reading() as uow:
            unfinished = uow.orphans.of_table(relation_id, [BatchState.MOVING])
        for unfinished_batch in unfinished:
            with self.database.writing() as uow:
                try:
                    batch = _lock_in_state(uow, unfinished_batch, BatchState.MOVING)
                except (NotFound, Conflict):  # another server has finished it
                    continue
                reported = self.load_report(batch) if self.reports.exists(batch.report) else []
                moved = [
                    line for line in reported if line.aside and self.files.is_moved(line.file.location, line.aside)
                ]
                self._record_batch(uow, batch, reported, moved)
        self._finish_putting_back(relation_id)

    def _finish_putting_back(self, relation_id: RelationId) -> None:
        with self.database.reading() as uow:
            batches = [batch for batch in uow.orphans.of_table(relation_id, [BatchState.ASIDE]) if batch.kept]
        for open_batch in batches:
            with self.database.writing() as uow:
                batch = uow.orphans.lock(open_batch.id)
                for line in self._load_report_or_none(batch) or () if batch.state is BatchState.ASIDE else ():
                    if line.file.location in batch.kept:
                        self._move_back(line)

    def load_report(self, batch: OrphanBatch) -> list[ReportedFile]:
        """The files of a batch; raises NotFound when its report is missing."""
        return [ReportedFile.from_json(line) for line in self._read_report(batch)["files"]]

    def load_reports(self, batches: Sequence[OrphanBatch]) -> dict[UUID, list[ReportedFile]]:
        """The files of many batches, by batch id; reads one file per batch, marks batches without report as lost."""
        reports: dict[UUID, list[ReportedFile]] = {}
        for batch, lines in zip(batches, _map_parallel(self._load_report_or_none, batches), strict=True):
            if lines is None:
                self._mark_lost(batch)
            else:
                reports[batch.id] = lines
        return reports

    def _load_report_or_none(self, batch: OrphanBatch) -> list[ReportedFile] | None:
        try:
            return self.load_report(batch)
        except NotFound:
            return None

    def _mark_lost(self, batch: OrphanBatch) -> None:
        """Mark a batch without report as lost: nobody knows its files, so they stay, and jobs continue without it."""
        with self.database.writing() as uow:
            current = uow.orphans.lock(batch.id)
            if current.state is batch.state:
                uow.orphans.put(replace(current, state=BatchState.LOST))
        log.warning(
            "report %s is gone: the server neither deletes nor puts back the %d orphans of its batch",
            batch.report,
            batch.files,
        )

    def load_reason(self, batch: OrphanBatch) -> str:
        """Why the server took the files of a batch."""
        return str(self._read_report(batch)["reason"])

    def _read_report(self, batch: OrphanBatch) -> Json:
        report: Json = orjson.loads(self.reports.read(batch.report))
        return report

    def list_noted(self, relation_id: RelationId) -> dict[str, SeenFile]:
        """The noted files of a table that wait for their deletion, by location."""
        with self.database.reading() as uow:
            batches = uow.orphans.of_table(relation_id, [BatchState.NOTED])
        return {line.file.location: line.file for lines in self.load_reports(batches).values() for line in lines}

    def restore(
        self, relation_id: RelationId, *, job_id: JobId | None = None, paths: Collection[str] | None = None
    ) -> list[str]:
        """Put the quarantined files of a table back, all of them or only `paths`; return the locations.

        It never replaces a file that lies in the place again. No later job takes these files as orphans; that includes
        files that were only noted.
        """
        self.recover(relation_id)
        with self.database.reading() as uow:
            batches = uow.orphans.of_table(relation_id, [BatchState.ASIDE, BatchState.NOTED])
        requested = None if paths is None else {normalize_location(path) for path in paths}
        batches = [batch for batch in batches if job_id is None or batch.job_id == job_id]
        reports = self.load_reports(batches)
        returned: list[str] = []
        for batch in batches:
            lines = [line for line in reports.get(batch.id, ()) if line.file.location not in batch.kept]
            if requested is not None:
                lines = [line for line in lines if normalize_location(line.file.location) in requested]
            returned += self._restore(batch, lines)
        return returned

    def _restore(self, batch: OrphanBatch, lines: Sequence[ReportedFile]) -> list[str]:
        """Record that the server must not delete these files, then move them back.

        If it dies in between, the next `recover` moves them.
        """
        if not lines:
            return []
        with self.database.writing() as uow:
            batch = uow.orphans.lock(batch.id)
            if batch.state not in (BatchState.ASIDE, BatchState.NOTED):
                return []
            locations = [line.file.location for line in lines if line.file.location not in batch.kept]
            uow.orphans.put(replace(batch, kept=(*batch.kept, *locations)))
        with self.database.writing() as uow:
            batch = uow.orphans.lock(batch.id)
            returned = [line.file.location for line in lines if self._move_back(line)]
            failed = {line.file.location for line in lines} - set(returned)
            uow.orphans.put(replace(batch, kept=tuple(location for location in batch.kept if location not in failed)))
        return returned

    def _move_back(self, line: ReportedFile) -> bool:
        """Move a file back; True when the file itself is in its place now."""
        if line.aside is not None and self.files.is_moved(line.file.location, line.aside):
            try:
                self.files.move(line.aside, line.file.location)
            except AlreadyExists:  # another file lies in the place: both stay where they are
                return False
            except NotFound:  # moved by the first of two renames: what lies in the place shows it
                pass
        (now,) = self.files.inspect([line.file.location])
        return now is not None and now.same_as(line.file)

    def delete(self, lease: Lease, context: OrphanContext, batch: OrphanBatch, needed: Check) -> OrphanBatch:
        """Delete the files of a batch for good; files that a table needs after all go back for good.

        Once the row says DELETING, the server puts no file of the batch back. If it dies after that, the next run
        continues.
        """
        with self.database.writing() as uow:
            uow.catalogs.hold_all()
            check_lease(uow.jobs.lock(lease.job_id), lease)
            batch = uow.orphans.lock(batch.id)
            if batch.state not in (BatchState.ASIDE, BatchState.NOTED, BatchState.DELETING):
                raise Conflict(f"batch {batch.id} is {batch.state}")
            _check_no_neighbours(uow, context)
            tables = [uow.relations.get(table.id) for table in context.tables]
            lines = [line for line in self.load_report(batch) if line.file.location not in batch.kept]
            in_need = needed(tables, [line.file.location for line in lines])
            kept = [line.file.location for line in lines if self._must_stay(line, in_need)]
            batch = replace(batch, state=BatchState.DELETING, kept=(*batch.kept, *kept))
            uow.orphans.put(batch)
        deletable = [line for line in lines if line.file.location not in batch.kept]
        # Outside of a transaction, because the store may be slow.
        self._delete([line.aside for line in deletable if line.aside is not None])
        with self.database.writing() as uow:
            check_lease(uow.jobs.lock(lease.job_id), lease)
            batch = replace(
                _lock_in_state(uow, batch, BatchState.DELETING),
                state=BatchState.DELETED,
                files=len(deletable),
                bytes=sum(line.file.bytes for line in deletable),
                deleted_by=lease.job_id,
                deleted_at=uow.now(),
            )
            # Only while the job holds its lease: after that, a new job may need files that still lie in their place.
            self._delete([line.file.location for line in deletable if line.aside is None])
            uow.orphans.put(batch)
        return batch

    def _delete(self, locations: Sequence[str]) -> None:
        """Delete the files; deleting a missing file is no error."""
        for _ in _map_parallel(self.reports.delete, locations):
            pass

    def _must_stay(self, line: ReportedFile, needed: Collection[str]) -> bool:
        """Whether a table needs the file, or another file has replaced a noted one; moves a needed file back."""
        if line.file.location in needed:
            self._move_back(line)
            return True
        if line.aside is not None:
            return False
        (now,) = self.files.inspect([line.file.location])
        return now is not None and not now.same_as(line.file)


def _map_parallel(function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """The results in order; the first error ends the iteration."""
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="quarantine") as pool:
        yield from pool.map(function, items)


def _check_no_neighbours(uow: UnitOfWork, context: OrphanContext) -> None:
    """Raise Conflict when another table has come to the locations since the job proved that its table owns them."""
    own = [context.relation.id, *(table.id for table in context.tables)]
    for used in uow.dropped.find_overlaps(context.own_locations, but_for=own):
        log.warning("the server removes no orphans: %s now uses %s", used.used_by, used.location)
        raise Conflict(f"the server removes no more orphans of {context.relation.name}: {SHARED}")
    for published in context.candidate_locations[len(context.own_locations) :]:
        if reason := explain_published_not_own(uow, context.relation, published):
            raise Conflict(f"the server removes no more orphans of {context.relation.name}: {reason}")


def _lock_in_state(uow: UnitOfWork, batch: OrphanBatch, state: BatchState) -> OrphanBatch:
    """Lock the row of a batch and return it; raises Conflict when another server has changed its state."""
    current = uow.orphans.lock(batch.id)
    if current.state is not state:
        raise Conflict(f"batch {batch.id} is now {current.state}")
    return current


def _build_report(context: OrphanContext, reported: Sequence[ReportedFile]) -> bytes:
    reason = f"nothing of {context.relation.name} refers to them, and they are older than {context.min_age}"
    report = {
        "job": str(context.job.id),
        "table": str(context.relation.name),
        "at": context.now.isoformat(),
        "reason": reason,
    }
    return orjson.dumps(report | {"files": [line.to_json() for line in reported]})


def _get_base_name(location: str) -> str:
    return location.rstrip("/").rpartition("/")[2][-200:]
