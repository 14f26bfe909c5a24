"""What the leases of these kinds bring with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from catalog.iceberg.json import Json
from catalog.job import JobKind
from catalog.keeping.expiry import ExpirePolicy, Leaving, expire_task, leaving
from catalog.keeping.statistics import statistics_columns, statistics_task
from catalog.keeping.tags import TagPlan, TagPolicy, tag_plan, tags_task
from catalog.keeping.ttl import Cutoff, TtlPolicy, check_takes_ttl, cutoff_of, keyed_facts, ttl_task
from catalog.keyed.merge_task import MergePolicy, merge_task, pair_of
from catalog.keyed.spec import CHANGE
from catalog.names import TableName
from server.service.moment import Moment


def expiring(moment: Moment) -> list[tuple[TableName, Json, Leaving]]:
    """What may leave each table. A linked table's change history stays whole: a rebuild after a Hive overwrite
    replays it (docs/protocols.md, rule 3.2).
    """
    policy = ExpirePolicy(
        max_age=moment.policy["firn.expire.max-age"], keep_last=moment.policy["firn.expire.min-snapshots"]
    )
    return [
        (
            name,
            metadata,
            leaving(
                metadata,
                policy,
                now=moment.now,
                needed=moment.needed[store],
                needed_above=moment.keyed.watermark if moment.keyed is not None and store == CHANGE else None,
            ),
        )
        for store, name, metadata in moment.stores
        if store != CHANGE or moment.relation.hive_name is None
    ]


def _expire(moment: Moment) -> Json:
    return expire_task(expiring(moment))


def ttl_cutoff(moment: Moment) -> Cutoff:
    """Where old rows of this table end; Invalid or CommitRefused where none may be deleted."""
    check_takes_ttl(moment.relation.name, hive_linked=moment.relation.hive_name is not None)
    policy = TtlPolicy(
        field=moment.policy["firn.ttl.field"],
        max_age=moment.policy["firn.ttl.max-age"],
        zone=moment.policy["firn.optimize.time-zone"],
        whole_partitions=moment.policy["firn.ttl.whole-partitions"],
    )
    return cutoff_of(moment.main_store[1], policy, moment.now)


def _ttl(moment: Moment) -> Json:
    cutoff, (name, base) = ttl_cutoff(moment), moment.main_store
    task = ttl_task([*name.namespace, name.name], cutoff)
    if moment.keyed is None:
        return task
    change = moment.metadata[CHANGE]
    # Without a limit of rows: in parts, a merge would leave old rows pending.
    policy = MergePolicy(
        target_file_bytes=moment.policy["firn.rewrite.target-file-size"],
        deletes_through=moment.deletes_through,
    )
    merge = merge_task(moment.keyed, moment.relation.name, base, change, policy=policy)
    pair = pair_of(moment.keyed, moment.relation.name, base, change)
    return task | {"keyed": keyed_facts(pair, cutoff, merge)}


def planned_tags(moment: Moment) -> TagPlan:
    """The tags of the table, or of base: a tag of a keyed table holds what was merged by then."""
    policy = TagPolicy(
        schedule=moment.policy["firn.tags.schedule"],
        name=moment.policy["firn.tags.name"],
        max_age=moment.policy["firn.tags.max-age"],
        zone=moment.policy["firn.optimize.time-zone"],
    )
    return tag_plan(moment.main_store[1], policy, moment.now)


def _tags(moment: Moment) -> Json:
    name, metadata = moment.main_store
    return tags_task([*name.namespace, name.name], metadata, planned_tags(moment))


def _statistics(moment: Moment) -> Json:
    name, metadata = moment.main_store
    wanted = moment.policy["firn.statistics.columns"]
    columns = statistics_columns(metadata, wanted, all_without=moment.job.was_asked_for)
    return statistics_task([*name.namespace, name.name], metadata, columns)


KEEPING: Mapping[JobKind, Callable[[Moment], Json]] = {
    JobKind.EXPIRE: _expire,
    JobKind.TTL: _ttl,
    JobKind.TAGS: _tags,
    JobKind.STATISTICS: _statistics,
}
