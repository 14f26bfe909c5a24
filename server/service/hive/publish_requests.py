"""Publish requests of users: the server merges pending changes first, then publishes. One request is enough.

The transaction that plans the merge stores the request in the Hive link. If the server dies between merge and publish,
the next round continues the request. The request shows its progress, and at the end the result. Each step reads the
state anew, so a repeated step finds the job of the first try.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from catalog.errors import CatalogError, CommitUnknown, NotFound, Unavailable
from catalog.hive.publish_request import PublishRequest, PublishStep
from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.names import CatalogName, RelationId
from catalog.planning import TableFacts
from catalog.planning.trigger_result import format_count
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from server.service.hive.hive_state import find_linked_relation
from server.service.hive.link_state import update_link
from server.service.hive.publish_planner import PublishPlanner
from server.service.hive.results import PublishOutcome, PublishResult
from server.service.planning.planner import create_requested_job, load_facts

LASTS = timedelta(days=1)
"""The time for which the server retries: the metastore may be away, or other jobs may work all day."""


def build_waiting_result(relation: Relation, message: str) -> PublishResult:
    """The result of a request that waits until something else has ended."""
    return PublishResult(table=str(relation.name), outcome=PublishOutcome.WAITING, message=message)


@dataclass(frozen=True)
class PublishRequests:
    """Starts and continues publish requests. An interruption at any point loses no request."""

    database: Database
    planner: PublishPlanner

    def publish(
        self, catalog: CatalogName, full_name: str, *, merge: bool = True, remember: bool = True
    ) -> PublishResult:
        """Publish the changed partitions to Hive; with `merge`, a job merges pending changes first.

        With `remember`, later rounds do what remains or has to wait. Raises NotFound if no table is linked to the Hive
        table; Conflict if Hive has a column that the table has dropped, if another job works on the table, or if
        another Firn publishes to it; Unavailable if the metastore does not answer.
        """
        with self.database.reading() as uow:
            relation = find_linked_relation(uow, catalog, full_name)
        return self._start(relation, merge=merge, remember=remember)

    def is_open(self, relation_id: RelationId) -> bool:
        """Whether a table has an open request. The call is cheap enough for each job's end."""
        with self.database.reading() as uow:
            request = _request(uow, relation_id)
        return request is not None and request.is_open

    def _start(self, relation: Relation, *, merge: bool, remember: bool) -> PublishResult:
        """Start a merge of pending changes, or a publish. With `remember`, the link stores the request.

        Raises Conflict if the table accepts no merge or publish; then the link stores nothing.
        """
        with self.database.writing() as uow:
            facts = load_facts(uow, relation)
            through = _read_watermark(facts) if merge else 0
            request = PublishRequest(at=uow.now(), step=PublishStep.WAITING, message="", through=through)
            before = _request(uow, relation.id)
            if before is not None and before.is_open:  # the new request includes the open one
                request = replace(request, at=before.at, through=max(request.through, before.through))
            if merge and facts.keyed is not None and facts.keyed.pending_commits:
                outcome = self._start_merge(uow, relation, facts)
                if remember:
                    _note(uow, relation.id, _advance_request(request, outcome, facts))
                return outcome
        outcome = self.planner.plan(relation, requested=True)
        if remember:
            self._note(relation.id, _advance_request(request, outcome, facts))
        return outcome

    def carry_on(self, relation: Relation, request: PublishRequest) -> bool:
        """Do the next step of an open request; return whether it planned a job."""
        try:
            advanced = self._next(relation, request)
        except (Unavailable, CommitUnknown) as error:
            advanced = replace(request, step=PublishStep.WAITING, message=str(error), job=None)
        except CatalogError as error:
            hint = f"; {error.hint}" if error.hint else ""
            advanced = replace(request, step=PublishStep.FAILED, message=f"{error.message}{hint}")
        if advanced != request:
            self._note(relation.id, advanced, instead_of=request)
        return advanced.job is not None and advanced.job != request.job

    def _next(self, relation: Relation, request: PublishRequest) -> PublishRequest:
        with self.database.writing() as uow:
            job, facts = _job(uow, request), load_facts(uow, relation)
            if job is not None and job.status.is_active:
                return request
            if job is not None and job.status is not JobStatus.SUCCEEDED and not job.was_withdrawn:
                return replace(request, step=PublishStep.FAILED, message=_explain_failure(job))
            if job is not None and job.kind is JobKind.PUBLISH and job.status is JobStatus.SUCCEEDED:
                return replace(
                    request, step=PublishStep.DONE, message=_build_published_result(uow, relation, facts, job, request)
                )
            if uow.now() - request.at > LASTS:
                return replace(request, step=PublishStep.FAILED, message=f"not done within a day: {request.message}")
            if facts.keyed is not None and facts.keyed.pending_commits and facts.keyed.watermark < request.through:
                if job is not None and facts.keyed.watermark <= request.merged:
                    message = "its merge has ended without the changes that the request covers"
                    return replace(request, step=PublishStep.FAILED, message=message)
                outcome = self._start_merge(uow, relation, facts)
                advanced = _advance_request(request, outcome, facts)
                _note(uow, relation.id, advanced)
                return advanced
        return _advance_request(request, self.planner.plan(relation, requested=True), facts)

    def _start_merge(self, uow: UnitOfWork, relation: Relation, facts: TableFacts) -> PublishResult:
        """Plan a merge of all pending changes, or use a pending merge job: it reads the newest changes when it starts.

        Raises Conflict while the table accepts no merge.
        """
        active = uow.jobs.active_of(relation.id)
        if active is not None and not active.is_preemptible:
            if active.kind is not JobKind.MERGE or active.status is not JobStatus.PENDING or active.attempt:
                return build_waiting_result(relation, f"a {active.kind} job is {active.status}")
            return _build_merging_result(relation, active)
        job = create_requested_job(uow, relation, facts, JobKind.MERGE, {}, "requested, to publish the table")
        return _build_merging_result(relation, job)

    def _note(
        self, relation_id: RelationId, request: PublishRequest, *, instead_of: PublishRequest | None = None
    ) -> None:
        """Store the request, unless a user has made a newer one since it was read."""
        with self.database.writing() as uow:
            if instead_of is None or _request(uow, relation_id) == instead_of:
                _note(uow, relation_id, request)


def _build_merging_result(relation: Relation, job: Job) -> PublishResult:
    message = "merges what is pending first"
    return PublishResult(table=str(relation.name), outcome=PublishOutcome.MERGING, message=message, job=job)


def _note(uow: UnitOfWork, relation_id: RelationId, request: PublishRequest) -> None:
    update_link(uow, relation_id, lambda link: replace(link, publish_request=request))


def _request(uow: UnitOfWork, relation_id: RelationId) -> PublishRequest | None:
    link = uow.baselines.link(relation_id)
    return None if link is None else link.publish_request


def _job(uow: UnitOfWork, request: PublishRequest) -> Job | None:
    """Its job, unless that ended so long ago that it is forgotten."""
    try:
        return None if request.job is None else uow.jobs.get(request.job)
    except NotFound:
        return None


def _read_watermark(facts: TableFacts) -> int:
    return 0 if facts.keyed is None else facts.keyed.change_sequence


_STEPS = {
    PublishOutcome.UP_TO_DATE: PublishStep.DONE,
    PublishOutcome.HELD_BACK: PublishStep.DONE,
    PublishOutcome.MERGING: PublishStep.MERGING,
    PublishOutcome.PUBLISHING: PublishStep.PUBLISHING,
    PublishOutcome.WAITING: PublishStep.WAITING,
}


def _advance_request(request: PublishRequest, result: PublishResult, facts: TableFacts) -> PublishRequest:
    """The request after a step with this result."""
    is_done = result.outcome is PublishOutcome.UP_TO_DATE
    noted = replace(
        request,
        step=_STEPS[result.outcome],
        message="Hive is up to date" if is_done else result.message,
        held_back="; ".join(held.message for held in result.held_back),
    )
    if result.job is None:
        return replace(noted, job=None)
    return replace(noted, job=result.job.id, merged=0 if facts.keyed is None else facts.keyed.watermark)


def _explain_failure(job: Job) -> str:
    if job.status is JobStatus.CANCELED:
        return f"its {job.kind} job was canceled: Hive's table is unchanged"
    return f"its {job.kind} job failed: {job.error}"


def _build_published_result(
    uow: UnitOfWork, relation: Relation, facts: TableFacts, job: Job, request: PublishRequest
) -> str:
    return "; ".join(
        [*_list_published(job), *_still_waits(uow, relation, facts, job), *filter(None, [request.held_back])]
    )


def _list_published(job: Job) -> Iterator[str]:
    """Describe the result of a publish job; empty if its optimizer died before the report."""
    result = job.result
    waits = result.get("waits")
    if (switched := result.get("switched")) is not None and (switched or not waits):
        yield f"{format_count(switched, 'partition')} published"
    if skipped := result.get("skipped"):
        yield f"{format_count(skipped, 'partition')} skipped, because Hive changed them meanwhile"
    if waits:
        yield str(waits)
    if left := result.get("remaining"):
        yield f"the metastore does not point to {left} of them yet: each sync tries again"


def _still_waits(uow: UnitOfWork, relation: Relation, facts: TableFacts, job: Job) -> Iterator[str]:
    """Describe changes that Hive lacks: newer ones, and those of partitions that the job left out."""
    link = uow.baselines.link(relation.id)
    if facts.keyed is not None and link is not None:
        rows, _, commits, _ = uow.events.pending_of_writers(facts.keyed.change_id, above=link.published_through)
        if commits:
            yield f"{format_count(rows, 'change')} not published yet"
        elif not job.result.get("waits"):
            yield "Hive is up to date"
