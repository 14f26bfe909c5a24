"""Batches of orphans: reported, moved aside, put back, deleted.

A batch begins as a row, then comes its report, then its files are moved, then the row is marked. Where a process ends
between two of these, the storage tells how far it came: whoever comes next counts what is aside, and nothing else.
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
from catalog.removal.orphan_files import BatchState, OrphanBatch, ReportedFile, SeenFile
from catalog.tables.relation import Relation
from firn.protocol.locations import normalize_location
from server.service.locations.ownership import SHARED, explain_published_not_own
from server.service.orphans.context import OrphanContext

log = logging.getLogger(__name__)

_THREADS = 16
T = TypeVar("T")
R = TypeVar("R")

HELD = (BatchState.MOVING, BatchState.ASIDE, BatchState.NOTED)

Check = Callable[[Sequence[Relation], Collection[str]], Collection[str]]
"""Which of some files the tables need, as they are now."""


@dataclass(frozen=True)
class Quarantine:
    """What was taken for orphans, of all tables; safe to use from several servers."""

    database: Database
    files: QuarantineFiles
    reports: Files

    def take(
        self, lease: Lease, context: OrphanContext, files: Sequence[SeenFile], *, moves: bool, needed: Check
    ) -> None:
        """Set one batch aside, or note it where the store cannot rename.

        LeaseLost or Conflict, and nothing more is moved, when the lease has ended or the place is not the table's own
        any more. While files are moved nobody can add a table anywhere, nor take the lease away.
        """
        directory = f"{context.directory}/{uuid4()}"
        reported = [
            ReportedFile(file, f"{directory}/{at:04d}-{_last(file.location)}" if moves else None)
            for at, file in enumerate(files)
        ]
        batch = self._begin(lease, context, directory)
        self.reports.write_new(batch.report, _report(context, reported))
        with self.database.writing() as uow:
            uow.catalogs.hold_all()
            check_lease(uow.jobs.lock(lease.job_id), lease)
            batch = _in_state(uow, batch, BatchState.MOVING)
            tables = [uow.relations.get(one.id) for one in context.tables]
            _refuse_neighbours(uow, context)
            still = needed(tables, [one.location for one in files])
            taken = [one for one in reported if one.file.location not in still and self._set_aside(one)]
            self._mark(uow, batch, reported, taken)

    def _begin(self, lease: Lease, context: OrphanContext, directory: str) -> OrphanBatch:
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

    def _set_aside(self, one: ReportedFile) -> bool:
        """Whether it was taken: a file that has changed since it was judged is another file."""
        (now,) = self.files.look([one.file.location])
        if now is None or not now.same_as(one.file):
            return False
        try:
            if one.aside is not None:
                self.files.move(one.file.location, one.aside)
        except NotFound:  # its writer has deleted it just now
            return False
        return True

    def _mark(
        self, uow: UnitOfWork, batch: OrphanBatch, reported: Sequence[ReportedFile], taken: Sequence[ReportedFile]
    ) -> None:
        """Note what was taken of a batch; one of which nothing was is forgotten."""
        if taken:
            uow.orphans.put(self._marked(batch, reported, taken))
        else:
            uow.orphans.remove(batch.id)

    def _marked(
        self, batch: OrphanBatch, reported: Sequence[ReportedFile], taken: Sequence[ReportedFile]
    ) -> OrphanBatch:
        """The batch as it came out, with a report of that."""
        if len(taken) < len(reported):
            directory = batch.report.rpartition("/")[0]
            told = self._told(batch) | {"files": [one.to_json() for one in taken]}
            batch = replace(batch, report=f"{directory}/report-{uuid4()}.json")
            self.reports.write_new(batch.report, orjson.dumps(told))
        moved = any(one.aside is not None for one in reported)
        state = BatchState.ASIDE if moved else BatchState.NOTED
        return replace(batch, state=state, files=len(taken), bytes=sum(one.file.bytes for one in taken))

    def recover(self, relation_id: RelationId) -> None:
        """Finish the books of batches whose server died over them; what was not moved stays where it is."""
        with self.database.reading() as uow:
            unfinished = uow.orphans.of_table(relation_id, [BatchState.MOVING])
        for one in unfinished:
            with self.database.writing() as uow:
                try:
                    batch = _in_state(uow, one, BatchState.MOVING)
                except (NotFound, Conflict):  # another process has done it
                    continue
                reported = self.report(batch) if self.reports.exists(batch.report) else []
                moved = [one for one in reported if one.aside and self.files.is_moved(one.file.location, one.aside)]
                self._mark(uow, batch, reported, moved)
        self._finish_putting_back(relation_id)

    def _finish_putting_back(self, relation_id: RelationId) -> None:
        with self.database.reading() as uow:
            batches = [one for one in uow.orphans.of_table(relation_id, [BatchState.ASIDE]) if one.kept]
        for one in batches:
            with self.database.writing() as uow:
                batch = uow.orphans.lock(one.id)
                for line in self._report_if_there(batch) or () if batch.state is BatchState.ASIDE else ():
                    if line.file.location in batch.kept:
                        self._return(line)

    def report(self, batch: OrphanBatch) -> list[ReportedFile]:
        """The files of a batch."""
        return [ReportedFile.from_json(line) for line in self._told(batch)["files"]]

    def reports_of(self, batches: Sequence[OrphanBatch]) -> dict[UUID, list[ReportedFile]]:
        """The files of many batches, by their ids: each report is a file to read. Batches without one are lost."""
        found: dict[UUID, list[ReportedFile]] = {}
        for batch, lines in zip(batches, _side_by_side(self._report_if_there, batches), strict=True):
            if lines is None:
                self._lose(batch)
            else:
                found[batch.id] = lines
        return found

    def _report_if_there(self, batch: OrphanBatch) -> list[ReportedFile] | None:
        try:
            return self.report(batch)
        except NotFound:
            return None

    def _lose(self, batch: OrphanBatch) -> None:
        """Nobody can say any more which files it has: they are let alone, and jobs go on without it."""
        with self.database.writing() as uow:
            found = uow.orphans.lock(batch.id)
            if found.state is batch.state:
                uow.orphans.put(replace(found, state=BatchState.LOST))
        log.warning(
            "%s is gone: the %d orphans of its batch are neither deleted nor put back", batch.report, batch.files
        )

    def reason(self, batch: OrphanBatch) -> str:
        """Why its files were taken."""
        return str(self._told(batch)["reason"])

    def _told(self, batch: OrphanBatch) -> Json:
        told: Json = orjson.loads(self.reports.read(batch.report))
        return told

    def noted(self, relation_id: RelationId) -> dict[str, SeenFile]:
        """What has been noted of a table and waits for its time, by location."""
        with self.database.reading() as uow:
            batches = uow.orphans.of_table(relation_id, [BatchState.NOTED])
        return {line.file.location: line.file for lines in self.reports_of(batches).values() for line in lines}

    def put_back(
        self, relation_id: RelationId, *, job_id: JobId | None = None, paths: Collection[str] | None = None
    ) -> list[str]:
        """Bring back what was set aside of a table, all of it or these; what lies in place again is never replaced.

        They are not taken again. What was noted only stays where it is, and is let alone from now on.
        """
        self.recover(relation_id)
        with self.database.reading() as uow:
            batches = uow.orphans.of_table(relation_id, [BatchState.ASIDE, BatchState.NOTED])
        wanted = None if paths is None else {normalize_location(path) for path in paths}
        batches = [batch for batch in batches if job_id is None or batch.job_id == job_id]
        reports = self.reports_of(batches)
        back: list[str] = []
        for batch in batches:
            lines = [line for line in reports.get(batch.id, ()) if line.file.location not in batch.kept]
            asked = [line for line in lines if wanted is None or normalize_location(line.file.location) in wanted]
            back += self._put_back(batch, asked)
        return back

    def _put_back(self, batch: OrphanBatch, asked: Sequence[ReportedFile]) -> list[str]:
        """Noted first that these are not to be deleted, and then moved: killed between, the next run moves them."""
        if not asked:
            return []
        with self.database.writing() as uow:
            batch = uow.orphans.lock(batch.id)
            if batch.state not in (BatchState.ASIDE, BatchState.NOTED):
                return []
            names = [line.file.location for line in asked if line.file.location not in batch.kept]
            uow.orphans.put(replace(batch, kept=(*batch.kept, *names)))
        with self.database.writing() as uow:
            batch = uow.orphans.lock(batch.id)
            back = [line.file.location for line in asked if self._return(line)]
            stay = {line.file.location for line in asked} - set(back)
            uow.orphans.put(replace(batch, kept=tuple(one for one in batch.kept if one not in stay)))
        return back

    def _return(self, line: ReportedFile) -> bool:
        """Whether the file is in its place now."""
        if line.aside is not None and self.files.is_moved(line.file.location, line.aside):
            try:
                self.files.move(line.aside, line.file.location)
            except AlreadyExists:  # another file has come meanwhile: both stay where they are
                return False
        (now,) = self.files.look([line.file.location])
        return now is not None and now.same_as(line.file)

    def delete(self, lease: Lease, context: OrphanContext, batch: OrphanBatch, needed: Check) -> OrphanBatch:
        """Delete for good what a batch holds, but for what turns out to be needed: that is put back for good.

        From the mark on nothing of it is put back any more; killed after it, the next run goes on.
        """
        with self.database.writing() as uow:
            uow.catalogs.hold_all()
            check_lease(uow.jobs.lock(lease.job_id), lease)
            batch = uow.orphans.lock(batch.id)
            if batch.state not in (BatchState.ASIDE, BatchState.NOTED, BatchState.DELETING):
                raise Conflict(f"batch {batch.id} is {batch.state}")
            _refuse_neighbours(uow, context)
            tables = [uow.relations.get(one.id) for one in context.tables]
            lines = [line for line in self.report(batch) if line.file.location not in batch.kept]
            still = needed(tables, [line.file.location for line in lines])
            kept = [line.file.location for line in lines if self._must_stay(line, still)]
            batch = replace(batch, state=BatchState.DELETING, kept=(*batch.kept, *kept))
            uow.orphans.put(batch)
        gone = [line for line in lines if line.file.location not in batch.kept]
        # A store may take long: in no transaction.
        self._delete([line.aside for line in gone if line.aside is not None])
        with self.database.writing() as uow:
            check_lease(uow.jobs.lock(lease.job_id), lease)
            batch = replace(
                _in_state(uow, batch, BatchState.DELETING),
                state=BatchState.DELETED,
                files=len(gone),
                bytes=sum(line.file.bytes for line in gone),
                deleted_by=lease.job_id,
                deleted_at=uow.now(),
            )
            # In their place they may be needed again by whoever comes after the lease: only while it is held.
            self._delete([line.file.location for line in gone if line.aside is None])
            uow.orphans.put(batch)
        return batch

    def _delete(self, locations: Sequence[str]) -> None:
        """Whoever deletes them again finds them gone."""
        for _ in _side_by_side(self.reports.delete, locations):
            pass

    def _must_stay(self, line: ReportedFile, still: Collection[str]) -> bool:
        """Whether it is needed, or is not the file any more that was noted."""
        if line.file.location in still:
            self._return(line)
            return True
        if line.aside is not None:
            return False
        (now,) = self.files.look([line.file.location])
        return now is not None and not now.same_as(line.file)


def _side_by_side(do: Callable[[T], R], many: Sequence[T]) -> Iterator[R]:
    """In order; the first failure ends it."""
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="quarantine") as pool:
        yield from pool.map(do, many)


def _refuse_neighbours(uow: UnitOfWork, context: OrphanContext) -> None:
    """Conflict when a table has come to the place since it was proved to be this one's alone."""
    own = [context.relation.id, *(one.id for one in context.tables)]
    for place in uow.dropped.find_overlaps(context.own, but_for=own):
        log.warning("no orphans are taken: %s uses %s by now", place.used_by, place.location)
        raise Conflict(f"{SHARED}: nothing more of {context.relation.name} is taken")
    for published in context.places[len(context.own) :]:
        if reason := explain_published_not_own(uow, context.relation, published):
            raise Conflict(f"{reason}: nothing more of {context.relation.name} is taken")


def _in_state(uow: UnitOfWork, batch: OrphanBatch, state: BatchState) -> OrphanBatch:
    """Its current row; Conflict when another process has carried it on."""
    found = uow.orphans.lock(batch.id)
    if found.state is not state:
        raise Conflict(f"batch {batch.id} is {found.state} by now")
    return found


def _report(context: OrphanContext, reported: Sequence[ReportedFile]) -> bytes:
    reason = f"nothing of {context.relation.name} refers to them, and they are older than {context.min_age}"
    told = {
        "job": str(context.job.id),
        "table": str(context.relation.name),
        "at": context.now.isoformat(),
        "reason": reason,
    }
    return orjson.dumps(told | {"files": [one.to_json() for one in reported]})


def _last(location: str) -> str:
    return location.rstrip("/").rpartition("/")[2][-200:]
