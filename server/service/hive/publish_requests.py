"""Publishes that somebody has asked for: merged first where changes are pending, then published, without a second wish.

A wish is in the table's books from the transaction that plans its merge, so whoever dies between the merge and the
publish leaves it to the next round. It says how far it is, and at the end what Hive has now: people look at it.
Everything after the merge is found out anew at each step, so a step that is done twice finds the first one's job.
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
from server.service.hive.hive_state import split_name
from server.service.hive.link_state import update_link
from server.service.hive.publish_planner import PublishPlanner
from server.service.hive.results import PublishOutcome, PublishResult
from server.service.planning.planner import create_requested_job, load_facts

LASTS = timedelta(days=1)
"""So long is tried what others keep from being done: a metastore that is away, a table that is worked on all day."""


def build_waiting_result(relation: Relation, message: str) -> PublishResult:
    """Something else has to end first."""
    return PublishResult(table=str(relation.name), outcome=PublishOutcome.WAITING, message=message)


@dataclass(frozen=True)
class PublishRequests:
    """Carries wishes out; Safe to be interrupted anywhere."""

    database: Database
    planner: PublishPlanner

    def publish(
        self, catalog: CatalogName, full_name: str, *, merge: bool = True, remember: bool = True
    ) -> PublishResult:
        """Give Hive what has changed; with `merge`, a job merges pending changes first.

        Later rounds do what is left to do then, and what has to wait, unless the request is not to be remembered.
        NotFound when no table is linked to that Hive table. Conflict while Hive has a column that the table has no
        more, while another job works on the table, and where another Firn publishes to it. Unavailable without the
        metastore.
        """
        hive_name = ".".join(split_name(full_name))
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            relation = uow.relations.of_hive(catalog, hive_name)
        if relation is None:
            raise NotFound(
                f"{catalog} has no table over {hive_name}: a Hive table is published once it is upgraded",
                hint=f"upgrade it: firn hive upgrade {hive_name}",
            )
        return self._start(relation, merge=merge, remember=remember)

    def is_open(self, relation_id: RelationId) -> bool:
        """Whether a table has an open request; cheap, for asking at each job's end."""
        with self.database.reading() as uow:
            request = _request(uow, relation_id)
        return request is not None and request.is_open

    def _start(self, relation: Relation, *, merge: bool, remember: bool) -> PublishResult:
        """Merge what is pending, or publish; what is left to do then is remembered.

        Conflict where it may not be merged or published: nothing is remembered of that.
        """
        with self.database.writing() as uow:
            facts = load_facts(uow, relation)
            through = _read_watermark(facts) if merge else 0
            request = PublishRequest(at=uow.now(), step=PublishStep.WAITING, message="", through=through)
            before = _request(uow, relation.id)
            if before is not None and before.is_open:  # whoever asks again means that one too
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
        """The next step of one that is open; whether that planned a job."""
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
                    message = "its merge has ended and left the changes that it was asked for"
                    return replace(request, step=PublishStep.FAILED, message=message)
                outcome = self._start_merge(uow, relation, facts)
                advanced = _advance_request(request, outcome, facts)
                _note(uow, relation.id, advanced)
                return advanced
        return _advance_request(request, self.planner.plan(relation, requested=True), facts)

    def _start_merge(self, uow: UnitOfWork, relation: Relation, facts: TableFacts) -> PublishResult:
        """A merge of all that is pending: one that nobody has begun will do, for it reads then what there is.

        Conflict while the table takes no merge.
        """
        active = uow.jobs.active_of(relation.id)
        if active is not None and not active.is_preemptible:
            if active.kind is not JobKind.MERGE or active.status is not JobStatus.PENDING or active.attempt:
                return build_waiting_result(relation, f"a {active.kind} job is {active.status}")
            return _build_merging_result(relation, active)
        job = create_requested_job(uow, relation, facts, JobKind.MERGE, {}, "asked for, to publish it")
        return _build_merging_result(relation, job)

    def _note(
        self, relation_id: RelationId, request: PublishRequest, *, instead_of: PublishRequest | None = None
    ) -> None:
        """Unless somebody has asked again since it was read."""
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
    """What becomes of a request by what was done for it."""
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
        return f"its {job.kind} job was canceled: Hive has what it had before"
    return f"its {job.kind} job has failed: {job.error}"


def _build_published_result(
    uow: UnitOfWork, relation: Relation, facts: TableFacts, job: Job, request: PublishRequest
) -> str:
    return "; ".join(
        [*_list_published(job), *_still_waits(uow, relation, facts, job), *filter(None, [request.held_back])]
    )


def _list_published(job: Job) -> Iterator[str]:
    """What a publish job says of itself; of one whose optimizer died before its report nothing is known."""
    result = job.result
    waits = result.get("waits")
    if (switched := result.get("switched")) is not None and (switched or not waits):
        yield f"{format_count(switched, 'partition')} published"
    if skipped := result.get("skipped"):
        yield f"{format_count(skipped, 'partition')} given up, because Hive has changed something there meanwhile"
    if waits:
        yield str(waits)
    if left := result.get("remaining"):
        yield f"at {left} the metastore is still to be pointed: each sync tries it again"


def _still_waits(uow: UnitOfWork, relation: Relation, facts: TableFacts, job: Job) -> Iterator[str]:
    """Changes that Hive has not: those that came since, and those of partitions that the job had to leave out."""
    link = uow.baselines.link(relation.id)
    if facts.keyed is not None and link is not None:
        rows, _, commits, _ = uow.events.pending_of_writers(facts.keyed.change_id, above=link.published_through)
        if commits:
            yield f"{format_count(rows, 'change')} not published yet"
        elif not job.result.get("waits"):
            yield "Hive is up to date"
