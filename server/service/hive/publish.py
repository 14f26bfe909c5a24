"""Publishes on schedule: which linked tables are due, and which open requests go on.

`publish_requests` takes requests, `publish_planner` plans one publish of one table, and `publish_commit` registers the
files that an optimizer has written.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from catalog.errors import CatalogError, CommitUnknown
from catalog.hive.link import HiveLink
from catalog.hive.publish_request import PublishRequest
from catalog.jobs.job import Job, JobKind
from catalog.planning import Due, find_failure_backoff
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from server.service.hive.publish_planner import PublishPlanner
from server.service.hive.publish_requests import PublishRequests
from server.service.jobs.admission import find_blocker
from server.service.jobs.job_queue import enqueue, make_job
from server.service.planning.planner import load_facts, load_past_jobs

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishStatus:
    """Counts of one round over all linked tables."""

    planned: int = 0
    unavailable: int = 0


@dataclass(frozen=True)
class Publishes:
    """Plans scheduled publishes and continues open requests; safe to run at any time, any number of times."""

    database: Database
    planner: PublishPlanner
    requests: PublishRequests

    def activate(self) -> PublishStatus:
        """Publish every table whose publish interval is over; merge changes first that wait for so long.

        A table without an interval of its own is published from its first publish on, and merged by its own policy.
        Raises an ExceptionGroup at the end if there were unexpected errors.
        """
        status, broken = PublishStatus(), dict[str, Exception]()
        with self.database.reading() as uow:
            linked = [table for catalog in uow.catalogs.list() for table in uow.relations.linked_to_hive(catalog.name)]
        for relation in linked:
            try:
                planned = self._round(relation)
            except (CatalogError, CommitUnknown) as error:
                log.warning("%s: not published: %s", relation.name, error)
                status = replace(status, unavailable=status.unavailable + 1)
            except Exception as error:  # noqa: BLE001 -- raised below, when the tables after it have had their turn
                broken[f"{relation.catalog}.{relation.name}"] = error
            else:
                status = replace(status, planned=status.planned + planned)
        if broken:
            raise ExceptionGroup(f"could not publish {', '.join(broken)}", list(broken.values()))
        return status

    def _round(self, relation: Relation) -> bool:
        """Do the next step for one table; return whether a request or the policy demanded one."""
        wanted = self._choose_next(relation)
        if isinstance(wanted, PublishRequest):
            if self.requests.carry_on(relation, wanted):
                return True
            wanted = self._choose_next(relation)
        if wanted is JobKind.MERGE:
            self._merge_planned(relation)
        elif wanted is JobKind.PUBLISH:
            self.planner.plan(relation, requested=False)
        return isinstance(wanted, JobKind)

    def _choose_next(self, relation: Relation) -> JobKind | PublishRequest | None:
        """The open request, or the job kind that the publish interval demands now."""
        with self.database.reading() as uow:
            link = uow.baselines.link(relation.id)
            if link is None:
                return None
            request = link.publish_request
            return request if request is not None and request.is_open else self._choose_due_job(uow, relation, link)

    def _choose_due_job(self, uow: UnitOfWork, relation: Relation, link: HiveLink) -> JobKind | None:
        facts, now = load_facts(uow, relation), uow.now()
        interval: timedelta | None = facts.policy["firn.hive.publish.interval"]
        if interval is None or not facts.policy["firn.optimize.enabled"]:
            return None
        keyed = facts.keyed
        last, is_default = link.published_at, facts.policy.is_default("firn.hive.publish.interval")
        if last is None and is_default:  # no user has ever published it, so Hive's entries stay as they are
            return None
        if last is not None and now - last < interval:
            return None
        if uow.jobs.active_of(relation.id) is not None or find_blocker(uow, relation.id, JobKind.PUBLISH):
            return None
        past = load_past_jobs(uow, relation.id)
        if any(find_failure_backoff(kind, past, now) for kind in (JobKind.PUBLISH, JobKind.MERGE)):
            return None
        if keyed is None:
            return JobKind.PUBLISH if facts.stats.snapshot_id != link.published_snapshot_id else None
        waits = keyed.pending_since is not None and now - keyed.pending_since >= interval
        if waits and not is_default:  # else it is merged when its own policy says so
            return JobKind.MERGE
        news = keyed.watermark > link.published_through or _has_resolved_since(past, last)
        return JobKind.PUBLISH if news else None

    def _merge_planned(self, relation: Relation) -> None:
        with self.database.writing() as uow:
            facts, now = load_facts(uow, relation), uow.now()
            if facts.keyed is None or find_blocker(uow, relation.id, JobKind.MERGE):
                return
            reason = "changes wait for a publish to Hive (firn.hive.publish.interval)"
            due = Due(kind=JobKind.MERGE, reason=reason, state=f"publish {facts.keyed.change_sequence}")
            enqueue(uow, make_job(relation, due, facts, now), now)


def _has_resolved_since(past: Sequence[Job], moment: datetime | None) -> bool:
    """Whether rows have left base without a change, because their keys came twice (decision 47)."""
    resolved = [job.ended_at for job in past if job.kind is JobKind.KEYS and job.committed_by and job.ended_at]
    return any(moment is None or ended > moment for ended in resolved)
