"""Syncs linked tables on schedule: changes of Hive-side writers become a new snapshot.

`sync_planner` syncs one table, for the schedule and for routes.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from datetime import timedelta

from catalog.errors import (
    CatalogError,
    CommitUnknown,
)
from catalog.hive.link import Drift, DriftKind
from catalog.jobs.job import JobKind
from catalog.planning import find_failure_backoff
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation, RelationKind
from server.service.hive.link_state import note_drift
from server.service.hive.results import SyncOutcome, SyncResult
from server.service.hive.sync_hints import Hints
from server.service.hive.sync_planner import MetastoreAway, SyncPlanner, build_waiting_result
from server.service.jobs.admission import find_blocker
from server.service.planning.planner import load_past_jobs
from server.service.planning.policies import load_stored_policy

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStatus:
    """Counts of one round over all linked tables."""

    tables_checked: int = 0
    changed: int = 0
    conflicts: int = 0
    unavailable: int = 0


@dataclass(frozen=True)
class Syncs:
    """Syncs the linked tables that are due; safe to run at any time, any number of times."""

    database: Database
    planner: SyncPlanner
    hints: Hints = field(default_factory=Hints)

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
                result = self._sync(relation, everything=everything)
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

    def _sync(self, relation: Relation, *, everything: bool) -> SyncResult:
        """Sync a table, unless failures or blockers delay it."""
        if reason := self._explain_held_back(relation):
            return build_waiting_result(relation, reason)
        return self.planner.sync(relation, everything=everything)

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


def is_due(uow: UnitOfWork, relation: Relation, *, hinted: bool = False) -> bool:
    """Whether a sync is due: by a hint, or because the interval is over. The call is cheap."""
    link = uow.baselines.link(relation.id)
    if link is None:
        return False
    return hinted or uow.now() - link.synced_at >= load_stored_policy(uow, relation)["firn.hive.sync.interval"]


def is_sweep_due(uow: UnitOfWork, relation: Relation) -> bool:
    """Whether a sync should list every directory. On some storages no signal shows new files."""
    link = uow.baselines.link(relation.id)
    if link is None:
        return False
    sweep: timedelta = load_stored_policy(uow, relation)["firn.hive.sync.sweep"]
    return uow.now() - link.swept_at >= sweep
