"""Syncs linked tables, on schedule and on request: changes of Hive-side writers become a new snapshot.

`sync_planner` syncs one table once.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from catalog.errors import (
    CatalogError,
    CommitUnknown,
    NotFound,
)
from catalog.hive.link import Drift, DriftKind
from catalog.jobs.job import JobKind, JobStatus
from catalog.names import CatalogName
from catalog.planning import find_failure_backoff
from catalog.ports.files import TableFiles
from catalog.ports.store import Database
from catalog.tables.relation import Relation, RelationKind
from server.service.commit.commit_path import Committer
from server.service.hive.file_registration import Moved
from server.service.hive.hive_state import split_name
from server.service.hive.link_state import is_due, is_sweep_due, note_drift
from server.service.hive.repoint import Repointer
from server.service.hive.results import SyncOutcome, SyncResult
from server.service.hive.sync_hints import Hints
from server.service.hive.sync_planner import MetastoreAway, SyncPlanner
from server.service.hive.table_index import HiveIndex
from server.service.jobs.admission import find_blocker
from server.service.planning.planner import load_past_jobs
from server.service.tables.metadata_files import MetadataFiles

log = logging.getLogger(__name__)

MAX_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStatus:
    """Counts of one round over all linked tables."""

    tables_checked: int = 0
    changed: int = 0
    conflicts: int = 0
    unavailable: int = 0


@dataclass(frozen=True)
class Syncs:
    """Syncs linked tables, on schedule and on request; safe to run at any time, any number of times."""

    database: Database
    metadata: MetadataFiles
    committer: Committer
    index: HiveIndex
    files: TableFiles
    repointer: Repointer
    hints: Hints = field(default_factory=Hints)

    @property
    def planner(self) -> SyncPlanner:
        """The planner that syncs one table once."""
        return SyncPlanner(self.database, self.metadata, self.committer, self.index, self.files, self.repointer)

    def activate(self) -> SyncStatus:
        """Sync every linked table with a hint or a lapsed interval. A table that fails does not delay the others.

        Raises an ExceptionGroup at the end if there were unexpected errors.
        """
        status, broken, hinted = SyncStatus(), dict[str, Exception](), self.hints.take()
        with self.database.reading() as uow:
            linked = [table for catalog in uow.catalogs.list() for table in uow.relations.linked_to_hive(catalog.name)]
        for relation in linked:
            try:
                with self.database.reading() as uow:
                    if not is_due(uow, relation, hinted=relation.id in hinted):
                        continue
                    everything = is_sweep_due(uow, relation)
                status = replace(status, tables_checked=status.tables_checked + 1)
                result = self._build_result(relation, everything=everything, requested=False)
            except (CatalogError, CommitUnknown) as error:
                status = replace(status, unavailable=status.unavailable + 1)
                if not isinstance(error, MetastoreAway):
                    self._note_failure(relation, error)
                continue
            except Exception as error:  # noqa: BLE001 -- raised below, when the tables after it have had their turn
                broken[f"{relation.catalog}.{relation.name}"] = error
                continue
            if result.outcome is not SyncOutcome.UNCHANGED:
                self.hints.add([relation.id], hinted.get(relation.id, 0) - 1)
            changed = status.changed + result.changed
            status = replace(status, changed=changed, conflicts=status.conflicts + result.conflict)
        if broken:
            raise ExceptionGroup(f"could not sync {', '.join(broken)}", list(broken.values()))
        return status

    def _note_failure(self, relation: Relation, error: CatalogError | CommitUnknown) -> None:
        """Note the failure for people. The next sync compares anew, so it does not matter how far this one came."""
        try:
            with self.database.writing() as uow:
                note_drift(uow, relation.id, Drift(kind=DriftKind.SYNC, message=f"the last sync failed: {error}"))
        except (CatalogError, CommitUnknown) as unwritten:
            log.warning("%s: %s; which could not be noted: %s", relation.name, error, unwritten)

    def sync(
        self, catalog: CatalogName, full_name: str, *, everything: bool = False, only_schema: bool = False
    ) -> SyncResult:
        """Compare a table with its Hive table and take over the changes; `everything` lists every directory.

        With `only_schema` the sync compares only columns. Raises NotFound if no table is linked to the Hive table,
        Unavailable if the metastore or the storage does not answer.
        """
        wanted = ".".join(split_name(full_name))
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            relation = uow.relations.of_hive(catalog, wanted)
        if relation is None:
            raise NotFound(
                f"{catalog} has no table over {wanted}: a Hive table is synced once it is upgraded",
                hint=f"upgrade it: firn hive upgrade {wanted}",
            )
        return self._build_result(relation, everything=everything, only_schema=only_schema, may_leave=everything)

    def _build_result(
        self,
        relation: Relation,
        *,
        everything: bool = False,
        requested: bool = True,
        only_schema: bool = False,
        may_leave: bool = False,
    ) -> SyncResult:
        """Sync a table. Unless a person has `requested` it, failures and blockers delay it."""
        if not requested and (reason := self._explain_held_back(relation)):
            return _build_waiting_result(relation, reason)
        everything = everything or self._has_failed(relation)
        for _ in range(MAX_ROUNDS):
            try:
                return self.planner.sync(relation, everything=everything, only_schema=only_schema, may_leave=may_leave)
            except Moved:
                continue
        return _build_waiting_result(relation, "others change the table faster than it can be compared")

    def _has_failed(self, relation: Relation) -> bool:
        """Whether the last sync job failed. Files that it needed may be gone without any signal."""
        with self.database.reading() as uow:
            past = [job for job in load_past_jobs(uow, relation.id) if job.kind is JobKind.SYNC]
        return bool(past) and past[0].status is JobStatus.FAILED

    def _explain_held_back(self, relation: Relation) -> str | None:
        """Explain why the schedule skips the table, and note it for people. A keyed table's sync is a job."""
        with self.database.reading() as uow:
            held = find_failure_backoff(JobKind.SYNC, load_past_jobs(uow, relation.id), uow.now())
            blocker = find_blocker(uow, relation.id, JobKind.SYNC) if relation.kind is RelationKind.KEYED else None
        if held is None and blocker is None:
            return None
        reason = held.reason if held is not None else f"the table is {blocker}"
        with self.database.writing() as uow:
            note_drift(uow, relation.id, Drift(kind=DriftKind.SYNC, message=reason))
        return reason


def _build_waiting_result(relation: Relation, message: str) -> SyncResult:
    return SyncResult(table=str(relation.name), outcome=SyncOutcome.WAITING, message=message)
