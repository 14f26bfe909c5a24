"""Publishes that somebody has asked for: merged first where changes are pending, then published, without a second wish.

A wish is in the table's books from the transaction that plans its merge, so whoever dies between the merge and the
publish leaves it to the next round. It says how far it is, and at the end what Hive has now: people look at it.
Everything after the merge is found out anew at each step, so a step that is done twice finds the first one's job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Self
from uuid import UUID

from catalog.errors import CatalogError, CommitUnknown, NotFound, Unavailable
from catalog.job import Job, JobId, JobKind, JobStatus
from catalog.names import RelationId
from catalog.planning import TableFacts
from catalog.planning.need import counted
from catalog.ports.store import Database, UnitOfWork
from catalog.relation import Relation
from server.service.planner import asked_for, facts_of

NOTHING = "nothing to publish"
WAITS = "waits:"
LASTS = timedelta(days=1)
"""So long is tried what others keep from being done: a metastore that is away, a table that is worked on all day."""


class Step(StrEnum):
    """How far a wish is."""

    WAITS = "waits"
    MERGES = "merges"
    PUBLISHES = "publishes"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOutcome:
    """What one publish of one table did, or began."""

    table: str
    did: str
    job: Job | None = None
    partitions_wait: int = 0
    never: str | None = None
    """Why some of these wait for what time does not bring, and what to do."""

    @property
    def waits(self) -> bool:
        """Whether something else has to end first."""
        return self.did.startswith(WAITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """That Hive is to be given what was in the table `at` a time: changes `through` a sequence number."""

    at: datetime
    step: Step
    said: str
    through: int = 0
    merged: int = 0
    """The watermark when its last merge was asked for: one that moves nothing is not asked for again."""
    job: JobId | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is something left to do."""
        return self.step not in (Step.DONE, Step.FAILED)

    def to_json(self) -> dict[str, Any]:
        """As the books keep it."""
        told = {"at": self.at.isoformat(), "step": str(self.step), "said": self.said}
        job = None if self.job is None else str(self.job)
        return told | {"through": self.through, "merged": self.merged, "job": job}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """As it was kept."""
        job = None if told["job"] is None else JobId(UUID(told["job"]))
        return cls(**{**told, "at": datetime.fromisoformat(told["at"]), "step": Step(told["step"]), "job": job})


def wish_of(link: Mapping[str, Any]) -> Wish | None:
    """The last one of a table, over or not."""
    told = link.get("wish")
    return None if told is None else Wish.from_json(told)


@dataclass(frozen=True)
class Wishes:
    """Carries wishes out; `plan` makes a publish job of what differs now. Safe to be interrupted anywhere."""

    database: Database
    plan: Callable[[Relation], PublishOutcome]

    def ask(self, relation: Relation, *, merge: bool, remember: bool) -> PublishOutcome:
        """Merge what is pending, or publish; what is left to do then is remembered.

        Conflict where it may not be merged or published: nothing is remembered of that.
        """
        with self.database.writing() as uow:
            facts = facts_of(uow, relation)
            wish = Wish(at=uow.now(), step=Step.WAITS, said="", through=_through(facts) if merge else 0)
            before = _found(uow, relation.id)
            if before is not None and before.is_open:  # whoever asks again means that one too
                wish = replace(wish, at=before.at, through=max(wish.through, before.through))
            if merge and facts.keyed is not None and facts.keyed.pending_commits:
                outcome = self._merged(uow, relation, facts)
                if remember:
                    _note(uow, relation.id, _after(wish, outcome, facts))
                return outcome
        outcome = self.plan(relation)
        if remember:
            self._note(relation.id, _after(wish, outcome, facts))
        return outcome

    def carry_on(self, relation: Relation, wish: Wish) -> bool:
        """The next step of one that is open; whether that planned a job."""
        try:
            then = self._next(relation, wish)
        except (Unavailable, CommitUnknown) as error:
            then = replace(wish, step=Step.WAITS, said=f"{WAITS} {error}", job=None)
        except CatalogError as error:
            hint = f"; {error.hint}" if error.hint else ""
            then = replace(wish, step=Step.FAILED, said=f"{error.message}{hint}")
        if then != wish:
            self._note(relation.id, then, instead_of=wish)
        return then.job is not None and then.job != wish.job

    def _next(self, relation: Relation, wish: Wish) -> Wish:
        with self.database.writing() as uow:
            job, facts = _job(uow, wish), facts_of(uow, relation)
            if job is not None and job.status.is_active:
                return wish
            if job is not None and job.status is not JobStatus.SUCCEEDED and not job.was_withdrawn:
                return replace(wish, step=Step.FAILED, said=_why_not(job))
            if job is not None and job.kind is JobKind.PUBLISH and job.status is JobStatus.SUCCEEDED:
                return replace(wish, step=Step.DONE, said=_what_hive_has(uow, relation, facts, job, wish))
            if uow.now() - wish.at > LASTS:
                return replace(wish, step=Step.FAILED, said=f"not done within a day: {wish.said}")
            if facts.keyed is not None and facts.keyed.pending_commits and facts.keyed.watermark < wish.through:
                if job is not None and facts.keyed.watermark <= wish.merged:
                    said = "its merge has ended and left the changes that it was asked for"
                    return replace(wish, step=Step.FAILED, said=said)
                outcome = self._merged(uow, relation, facts)
                then = _after(wish, outcome, facts)
                _note(uow, relation.id, then)
                return then
        return _after(wish, self.plan(relation), facts)

    def _merged(self, uow: UnitOfWork, relation: Relation, facts: TableFacts) -> PublishOutcome:
        """A merge of all that is pending: one that nobody has begun will do, for it reads then what there is.

        Conflict while the table takes no merge.
        """
        name, active = str(relation.name), uow.jobs.active_of(relation.id)
        if active is not None and not active.gives_way:
            if active.kind is not JobKind.MERGE or active.status is not JobStatus.PENDING or active.attempt:
                return PublishOutcome(table=name, did=f"{WAITS} a {active.kind} job is {active.status}")
            return PublishOutcome(table=name, did="merges what is pending first", job=active)
        job = asked_for(uow, relation, facts, JobKind.MERGE, {}, "asked for, to publish it")
        return PublishOutcome(table=name, did="merges what is pending first", job=job)

    def _note(self, relation_id: RelationId, wish: Wish, *, instead_of: Wish | None = None) -> None:
        """Unless somebody has asked again since it was read."""
        with self.database.writing() as uow:
            if instead_of is None or _found(uow, relation_id) == instead_of:
                _note(uow, relation_id, wish)


def _note(uow: UnitOfWork, relation_id: RelationId, wish: Wish) -> None:
    found = uow.grounds.link(relation_id)
    if found is not None:
        uow.grounds.put_link(relation_id, {**found[0], "wish": wish.to_json()}, found[1])


def _found(uow: UnitOfWork, relation_id: RelationId) -> Wish | None:
    found = uow.grounds.link(relation_id)
    return None if found is None else wish_of(found[0])


def _job(uow: UnitOfWork, wish: Wish) -> Job | None:
    """Its job, unless that ended so long ago that it is forgotten."""
    try:
        return None if wish.job is None else uow.jobs.get(wish.job)
    except NotFound:
        return None


def _through(facts: TableFacts) -> int:
    return 0 if facts.keyed is None else facts.keyed.change_sequence


def _after(wish: Wish, outcome: PublishOutcome, facts: TableFacts) -> Wish:
    """What becomes of a wish by what was done for it."""
    if outcome.job is None:
        step, said = (Step.WAITS, outcome.did) if outcome.waits else (Step.DONE, _nothing(outcome))
        return replace(wish, step=step, said=said, job=None)
    is_merge = outcome.job.kind is JobKind.MERGE
    merged = 0 if facts.keyed is None else facts.keyed.watermark
    step = Step.MERGES if is_merge else Step.PUBLISHES
    return replace(wish, step=step, said=outcome.did, job=outcome.job.id, merged=merged)


def _nothing(outcome: PublishOutcome) -> str:
    return "Hive has everything already" if outcome.did == NOTHING else outcome.did


def _why_not(job: Job) -> str:
    if job.status is JobStatus.CANCELED:
        return f"its {job.kind} job was canceled: Hive has what it had before"
    return f"its {job.kind} job has failed: {job.error}"


def _what_hive_has(uow: UnitOfWork, relation: Relation, facts: TableFacts, job: Job, wish: Wish) -> str:
    return "; ".join(
        [*_given(job), *_still_waits(uow, relation, facts, job), *filter(None, [wish.said.partition("; ")[2]])]
    )


def _given(job: Job) -> Iterator[str]:
    """What a publish job says of itself; of one whose optimizer died before its report nothing is known."""
    result = job.result
    waits = result.get("waits")
    if (switched := result.get("switched")) is not None and (switched or not waits):
        yield f"Hive now sees {counted(switched, 'partition')} as readers here do"
    if given_up := result.get("given_up"):
        yield f"{counted(given_up, 'partition')} given up, because Hive has changed something there meanwhile"
    if waits:
        yield str(waits)
    if left := result.get("left"):
        yield f"at {left} the metastore is still to be pointed: each sync tries it again"


def _still_waits(uow: UnitOfWork, relation: Relation, facts: TableFacts, job: Job) -> Iterator[str]:
    """Changes that Hive has not: those that came since, and those of partitions that the job had to leave out."""
    found = uow.grounds.link(relation.id)
    if facts.keyed is not None and found is not None:
        rows, _, commits, _ = uow.events.pending_of_writers(facts.keyed.change_id, above=found[0]["given"])
        if commits:
            yield f"{counted(rows, 'change')} not in Hive yet"
        elif not job.result.get("waits"):
            yield "it has every change"
