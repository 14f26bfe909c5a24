"""What a lease brings with it: facts of one moment, read when the lease is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from catalog.errors import NoSuchTable
from catalog.iceberg.json import Json
from catalog.job import ASKED_FOR, Job, JobKind
from catalog.keyed.keys_task import Keep, keys_task
from catalog.keyed.merge_task import (
    MergeMode,
    MergePolicy,
    clean_task,
    merge_task,
)
from catalog.keyed.replay_task import replay_task, replayed_through
from catalog.keyed.spec import BASE, CHANGE, KeyedTable
from catalog.names import CatalogName, TableName
from catalog.planning import Due, TableFacts
from catalog.ports.store import Database, UnitOfWork
from catalog.relation import Relation
from server.service import filetasks
from server.service.facts import load_metadata
from server.service.keeping.tasks import KEEPING
from server.service.metadata import MetadataFiles
from server.service.moment import Moment
from server.service.planner import check_takes, facts_of, planned_relation
from server.service.queueing import queued


class Leased(NamedTuple):
    """What a job is given with its lease, and the state of the table that it was made from."""

    task: Json
    moment: Moment


MoreFacts = Callable[[UnitOfWork, Job, Relation], Json]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a job would be given if it were asked for now."""

    moment: Moment
    task: Json


@dataclass(frozen=True)
class Tasks:
    """Builds the facts of every job kind."""

    database: Database
    metadata: MetadataFiles
    more: Mapping[JobKind, MoreFacts] = field(default_factory=dict)
    """What other parts of the server add for their own kinds."""
    looks: Mapping[JobKind, Callable[[Moment], Json]] = field(default_factory=dict)
    """The same of kinds for which somebody has to be asked who is no database: no transaction is open meanwhile."""

    def of(self, job: Job) -> Json:
        """The facts for a job; NoSuchTable when its table is gone."""
        return self.leased(job).task

    def leased(self, job: Job) -> Leased:
        """The same, with what they were made from."""
        with self.database.reading() as uow:
            relation = uow.relations.get(job.relation_id)
            moment = self._moment(uow, job, relation)
            extra = self.more[job.kind](uow, job, relation) if job.kind in self.more else {}
        built: Json = _BUILDERS[job.kind](moment)
        looked = self.looks[job.kind](moment) if job.kind in self.looks else {}
        return Leased(built | extra | looked, moment)

    def if_asked(self, catalog: CatalogName, name: TableName, kind: JobKind, params: Mapping[str, object]) -> Asked:
        """The facts that a job would be given now; Invalid for a kind that the table does not take."""
        with self.database.reading() as uow:
            relation = planned_relation(uow, catalog, name)
            facts = facts_of(uow, relation)
            check_takes(relation, facts, kind)
            due = Due(kind=kind, why="asked for", state=ASKED_FOR, params=params)
            moment = self._moment(uow, queued(relation, due, facts, uow.now(), asked=True), relation)
        return Asked(moment, _BUILDERS[kind](moment))

    def _moment(self, uow: UnitOfWork, job: Job, relation: Relation) -> Moment:
        facts = facts_of(uow, relation)
        stores = {"": relation}
        needed: dict[str, frozenset[int]] = {"": frozenset()}
        if facts.keyed is not None:
            stores = {BASE: uow.relations.get(facts.keyed.base_id), CHANGE: uow.relations.get(facts.keyed.change_id)}
            current = uow.keyed.versions(relation.id, limit=1)
            needed = {
                BASE: frozenset(v.base_snapshot_id for v in current if v.base_snapshot_id is not None),
                CHANGE: frozenset(v.change_snapshot_id for v in current if v.change_snapshot_id is not None),
            }
        return Moment(
            job=job,
            relation=relation,
            policy=facts.policy,
            now=uow.now(),
            keyed=facts.keyed,
            metadata={store: load_metadata(self.metadata, one) for store, one in stores.items()},
            needed=needed,
            deletes_through=_deletes_through(uow, facts),
        )


def _deletes_through(uow: UnitOfWork, facts: TableFacts) -> int:
    """Only where late changes may come do merged deletes stay at all."""
    if facts.keyed is None or facts.keyed.spec.sequence_field is None:
        return 0
    return uow.events.newest_before(facts.keyed.change_id, uow.now() - facts.policy["firn.tombstone.max-age"])


def _merge_policy(moment: Moment) -> MergePolicy:
    wanted = moment.job.params.get("mode") or moment.policy["firn.merge.mode"]
    return MergePolicy(
        mode=MergeMode(wanted),
        target_file_bytes=moment.policy["firn.rewrite.target-file-size"],
        deletes_through=moment.deletes_through,
        max_job_rows=moment.policy["firn.merge.max-job-rows"],
    )


def _keyed(moment: Moment) -> KeyedTable:
    if moment.keyed is None:
        raise NoSuchTable(f"{moment.relation.name} is no keyed table any more")
    return moment.keyed


def _merge(moment: Moment) -> Json:
    base, change = moment.metadata[BASE], moment.metadata[CHANGE]
    return merge_task(_keyed(moment), moment.relation.name, base, change, policy=_merge_policy(moment))


def _clean(moment: Moment) -> Json:
    keyed = _keyed(moment)
    policy = _merge_policy(moment)
    return clean_task(keyed, moment.relation.name, through=keyed.watermark, policy=policy)


def _keys(moment: Moment) -> Json:
    keyed, name = _keyed(moment), moment.relation.name
    keep, linked = Keep.from_params(moment.job.params), moment.relation.hive_name is not None
    return keys_task(keyed, name, moment.metadata[BASE], keep, linked=linked)


def _sync(moment: Moment) -> Json:
    """A sync that rebuilds partitions is also a merge, of everything whether pending or not."""
    keyed, base, change = _keyed(moment), moment.metadata[BASE], moment.metadata[CHANGE]
    through = replayed_through(change)
    clean = clean_task(keyed, moment.relation.name, through=through, policy=_merge_policy(moment))
    everything = replace(_merge_policy(moment), max_job_rows=None)
    merge = merge_task(keyed, moment.relation.name, base, change, policy=everything)
    return {
        "merge": merge | {"through": through, "clean": clean},
        "replay": replay_task(keyed, moment.relation.name, base, change),
    }


_BUILDERS: Mapping[JobKind, Callable[[Moment], Json]] = {
    JobKind.MERGE: _merge,
    JobKind.CLEAN: _clean,
    JobKind.REWRITE: lambda moment: filetasks.rewrite(moment.job, moment.policy, is_keyed=moment.keyed is not None),
    JobKind.COMPACT: lambda moment: filetasks.compact(moment.job, moment.policy, _keyed(moment)),
    JobKind.DELETES: lambda moment: filetasks.deletes(moment.job, moment.policy, is_keyed=moment.keyed is not None),
    JobKind.MANIFESTS: lambda moment: filetasks.manifests(moment.job, moment.policy, is_keyed=moment.keyed is not None),
    JobKind.KEYS: _keys,
    JobKind.SYNC: _sync,
    JobKind.ORPHANS: lambda _moment: {},  # all of it comes from server.service.orphans
    JobKind.PUBLISH: lambda _moment: {},  # and of these two from server.service.hive
    JobKind.CONVERT: lambda _moment: {},
    **KEEPING,
}
