"""What a lease brings with it: facts of one moment, read when the lease is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from catalog.errors import NoSuchTable
from catalog.iceberg.json import Json
from catalog.job import Job, JobKind
from catalog.keyed.merge_task import (
    MergeMode,
    MergePolicy,
    clean_task,
    expirable_snapshots,
    expire_task,
    merge_task,
)
from catalog.keyed.replay_task import replay_task, replayed_through
from catalog.keyed.spec import BASE, CHANGE, KeyedTable
from catalog.names import TableName
from catalog.policy.policy import Policy
from catalog.ports.store import Database, UnitOfWork
from catalog.relation import Relation
from server.service import filetasks
from server.service.facts import load_metadata
from server.service.metadata import MetadataFiles
from server.service.planner import facts_of

MoreFacts = Callable[[UnitOfWork, Job, Relation], Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """A job's table as it is when the lease is given."""

    job: Job
    relation: Relation
    policy: Policy
    now: datetime
    keyed: KeyedTable | None
    metadata: Mapping[str, Json]
    """By store for a keyed table, under "" for a plain one."""
    needed: Mapping[str, frozenset[int]]


@dataclass(frozen=True)
class Tasks:
    """Builds the facts of every job kind."""

    database: Database
    metadata: MetadataFiles
    more: Mapping[JobKind, MoreFacts] = field(default_factory=dict)
    """What other parts of the server add for their own kinds."""

    def of(self, job: Job) -> Json:
        """The facts for a job; NoSuchTable when its table is gone."""
        with self.database.reading() as uow:
            relation = uow.relations.get(job.relation_id)
            moment = self._moment(uow, job, relation)
            extra = self.more[job.kind](uow, job, relation) if job.kind in self.more else {}
        built: Json = _BUILDERS[job.kind](moment)
        return built | extra

    def _moment(self, uow: UnitOfWork, job: Job, relation: Relation) -> _Moment:
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
        return _Moment(
            job=job,
            relation=relation,
            policy=facts.policy,
            now=uow.now(),
            keyed=facts.keyed,
            metadata={store: load_metadata(self.metadata, one) for store, one in stores.items()},
            needed=needed,
        )


def _merge_policy(moment: _Moment) -> MergePolicy:
    wanted = moment.job.params.get("mode") or moment.policy["firn.merge.mode"]
    return MergePolicy(
        mode=MergeMode(wanted),
        target_file_bytes=moment.policy["firn.rewrite.target-file-size"],
        tombstone_max_age=moment.policy["firn.tombstone.max-age"],
        max_job_rows=moment.policy["firn.merge.max-job-rows"],
    )


def _keyed(moment: _Moment) -> KeyedTable:
    if moment.keyed is None:
        raise NoSuchTable(f"{moment.relation.name} is no keyed table any more")
    return moment.keyed


def _merge(moment: _Moment) -> Json:
    base, change = moment.metadata[BASE], moment.metadata[CHANGE]
    return merge_task(_keyed(moment), moment.relation.name, base, change, policy=_merge_policy(moment), now=moment.now)


def _clean(moment: _Moment) -> Json:
    keyed = _keyed(moment)
    policy = _merge_policy(moment)
    return clean_task(keyed, moment.relation.name, through=keyed.watermark, policy=policy, now=moment.now)


def _expire(moment: _Moment) -> Json:
    """A linked table's change history stays whole: a rebuild after a Hive overwrite replays it (rule 3.2)."""
    cutoff = moment.now - moment.policy["firn.expire.max-age"]
    found: dict[TableName, tuple[Json, list[int]]] = {}
    for store, metadata in moment.metadata.items():
        if store == CHANGE and moment.relation.hive_name is not None:
            continue
        name = TableName(moment.relation.name.as_namespace, store) if store else moment.relation.name
        ids = expirable_snapshots(
            metadata,
            needed=moment.needed[store],
            ended_before=cutoff,
            keep_last=moment.policy["firn.expire.min-snapshots"],
            needed_above=_keyed(moment).watermark if store == CHANGE else None,
        )
        found[name] = (metadata, ids)
    return expire_task(found)


def _sync(moment: _Moment) -> Json:
    """A sync that rebuilds partitions is also a merge, of everything whether pending or not."""
    keyed, base, change = _keyed(moment), moment.metadata[BASE], moment.metadata[CHANGE]
    through = replayed_through(change)
    clean = clean_task(keyed, moment.relation.name, through=through, policy=_merge_policy(moment), now=moment.now)
    everything = replace(_merge_policy(moment), max_job_rows=None)
    merge = merge_task(keyed, moment.relation.name, base, change, policy=everything, now=moment.now)
    return {
        "merge": merge | {"through": through, "clean": clean},
        "replay": replay_task(keyed, moment.relation.name, base, change),
    }


_BUILDERS: Mapping[JobKind, Callable[[_Moment], Json]] = {
    JobKind.MERGE: _merge,
    JobKind.CLEAN: _clean,
    JobKind.REWRITE: lambda moment: filetasks.rewrite(moment.job, moment.policy, is_keyed=moment.keyed is not None),
    JobKind.COMPACT: lambda moment: filetasks.compact(moment.job, moment.policy, _keyed(moment)),
    JobKind.DELETES: lambda moment: filetasks.deletes(moment.job, moment.policy, is_keyed=moment.keyed is not None),
    JobKind.MANIFESTS: lambda moment: filetasks.manifests(moment.job, moment.policy, is_keyed=moment.keyed is not None),
    JobKind.EXPIRE: _expire,
    JobKind.SYNC: _sync,
    JobKind.ORPHANS: lambda _moment: {},  # all of it comes from server.service.orphans
}
