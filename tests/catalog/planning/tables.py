"""What planning may know of a table: whatever hypothesis thinks of, and handy ones."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from catalog.files.bin_packing import RewriteRule
from catalog.files.file_layout import NOTHING, FileLayout, Packing
from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.keyed.spec import KeySpec
from catalog.maintenance.rewrite import WITH_VECTORS
from catalog.planning import TableFacts
from catalog.planning.file_rules import compact_rule, rewrite_rule
from catalog.policy.policy import merge_layers
from catalog.tables.relation import TableStats
from tests.factories import NOW, a_job, a_keyed_table

KEYED = a_keyed_table()
PLAIN = TableStats(relation_id=KEYED.base_id, snapshot_id=7)
DAY = timedelta(days=1)

_POLICIES = {
    "firn.merge.trigger": ["rows >= 10 and age >= 1 h", "elapsed >= 2 h or commits >= 3"],
    "firn.merge.schedule": ["0 * * * *"],
    "firn.rewrite.schedule": ["30 2 * * *"],
    "firn.rewrite.max-delete-ratio": ["0", "0.5"],
    "firn.expire.schedule": ["0 1 * * *"],
    "firn.orphans.schedule": ["", "*/5 * * * *"],
    "firn.ttl.field": ["at"],
    "firn.ttl.max-age": ["30 d"],
    "firn.statistics.columns": ["id, day"],
    "firn.tags.schedule": ["0 0 * * *"],
    "firn.optimize.window": ["0 22 * * * for 8 h", "0 0 1 1 * for 1 h"],
    "firn.optimize.not-during": ["0 9 * * 1-5 for 9 h", "*/30 * * * * for 10 min"],
    "firn.optimize.time-zone": ["Europe/Berlin", "America/New_York"],
}


def laid_out(facts: TableFacts, *partitions: int, small: int | None = None) -> TableFacts:
    """The table with its files counted: so many small ones of the same size in each of these partitions.

    Where it has deletes they apply to all of its files.
    """
    stats, rule = facts.stats, rewrite_rule(facts.policy)
    files = sum(partitions)
    size = stats.bytes / max(stats.data_files, 1)
    every = replace(NOTHING, files=stats.data_files, bytes=stats.bytes, groups=1, files_after=stats.data_files)
    every = replace(every, delete_files=stats.delete_files)
    packed = {name: _packed(partitions, size, {**rule, **more}) for name, more in _RULES.items()}
    if stats.format_version >= WITH_VECTORS and facts.deleted_share >= rule["max_delete_ratio"] and stats.delete_files:
        packed = dict.fromkeys(_RULES, every)
    layout = FileLayout(
        snapshot_id=stats.snapshot_id,
        spec_id=stats.spec_id,
        epoch=stats.epoch,
        rule=rule,
        data_files=max(stats.data_files, files),
        small_files=files if small is None else small,
        partitions=len(partitions),
        planned=packed["planned"],
        requested=packed["requested"],
        deletes=every if stats.delete_files else packed["planned"],
    )
    return replace(facts, layout=layout)


_RULES: dict[str, dict[str, int]] = {"planned": {}, "requested": {"min_files": 2}}


def _packed(partitions: tuple[int, ...], size: float, task: dict[str, Any]) -> Packing:
    rule = RewriteRule.of_task(task)
    groups = [
        partition
        for partition in partitions
        if partition > 1 and (partition >= rule.min_files or partition * size > rule.target_bytes)
    ]
    after = [rule.files_after(round(group * size)) for group in groups]
    return Packing(
        files=sum(groups),
        bytes=round(sum(groups) * size),
        groups=len(groups),
        files_after=sum(after),
        packable_files=sum(group for group, left in zip(groups, after, strict=True) if left < group),
    )


def with_changes(facts: TableFacts, files: int) -> TableFacts:
    """The keyed table with so many files in its change store that can be packed into one."""
    assert facts.keyed is not None
    assert facts.change is not None
    packing = Packing(files=files, bytes=files, groups=1, files_after=1, packable_files=files)
    layout = FileLayout(
        snapshot_id=facts.change.snapshot_id,
        spec_id=facts.change.spec_id,
        epoch=facts.change.epoch,
        rule=compact_rule(facts.policy, facts.keyed),
        data_files=files,
        small_files=files,
        partitions=1,
        planned=packing,
        requested=packing,
    )
    return replace(facts, change_layout=layout)


_OF_FACTS = ("hive_linked", "created_at", "blockers", "keeps_orphans")


def plain(policy: dict[str, str] | None = None, **counted: Any) -> TableFacts:
    """A plain table with these counters, made a moment ago; its `small_files` lie in one partition, and are counted."""
    small = counted.pop("small_files", 0)
    more = {name: counted.pop(name) for name in _OF_FACTS if name in counted}
    stats = TableStats(relation_id=PLAIN.relation_id, **{"snapshot_id": 7, **counted})
    facts = TableFacts(policy=merge_layers([("table", policy or {})]), stats=stats, **{"created_at": NOW, **more})
    return laid_out(facts, *([small] if small else []))


def counters(relation_id: Any) -> st.SearchStrategy[TableStats]:
    """Any counters, sensible or not."""
    few = st.integers(0, 300)
    moments = st.integers(0, 40 * 24).map(lambda hours: NOW - timedelta(hours=hours))
    return st.builds(
        TableStats,
        relation_id=st.just(relation_id),
        snapshot_id=st.one_of(st.none(), st.integers(1, 9)),
        sequence_number=few,
        snapshots=few,
        records=st.integers(0, 10**7),
        data_files=few,
        delete_files=few,
        bytes=st.integers(0, 10**12),
        position_deletes=st.integers(0, 10**7),
        equality_deletes=few,
        manifests=st.one_of(st.none(), few),
        format_version=st.integers(1, 3),
        last_operation=st.sampled_from([None, "append", "replace"]),
        last_commit_at=st.one_of(st.none(), moments),
        oldest_superseded_at=st.one_of(st.none(), moments),
    )


policies = st.fixed_dictionaries({}, optional={key: st.sampled_from(texts) for key, texts in _POLICIES.items()})


@st.composite
def tables(draw: st.DrawFn) -> TableFacts:
    """Plain, keyed and linked tables, under any policy."""
    keyed = None
    if draw(st.booleans()):
        commits = draw(st.integers(0, 30))
        keyed = a_keyed_table(
            relation_id=KEYED.relation_id,
            base_id=KEYED.base_id,
            change_id=KEYED.change_id,
            spec=KeySpec(primary_key=("id",), sequence_field=draw(st.sampled_from([None, "at"]))),
            watermark=draw(st.integers(0, 5)),
            change_sequence=draw(st.integers(0, 9)),
            pending_rows=draw(st.integers(0, 10**6)) if commits else 0,
            pending_bytes=draw(st.integers(0, 10**8)) if commits else 0,
            pending_commits=commits,
            pending_since=NOW - timedelta(minutes=draw(st.integers(0, 200))) if commits else None,
        )
    facts = TableFacts(
        policy=merge_layers([("table", draw(policies))]),
        stats=draw(counters(KEYED.base_id)),
        keyed=keyed,
        change=None if keyed is None else draw(counters(KEYED.change_id)),
        hive_linked=draw(st.booleans()),
        keeps_orphans=draw(st.sampled_from([None, "it is shared"])),
        created_at=NOW - timedelta(days=draw(st.integers(0, 40))),
    )
    if keyed is not None and draw(st.booleans()):
        facts = with_changes(facts, draw(st.integers(2, 300)))
    if draw(st.booleans()):
        return facts  # nobody has counted its files yet
    partitions = draw(st.lists(st.integers(1, 40), max_size=8))
    files = facts.stats.data_files + sum(partitions)
    return laid_out(replace(facts, stats=replace(facts.stats, data_files=files)), *partitions)


def ended(kind: JobKind, status: JobStatus = JobStatus.SUCCEEDED, **changes: Any) -> Job:
    """A job that ended now."""
    return a_job(status, **{"kind": kind, "created_at": NOW, "leased_at": NOW, "ended_at": NOW, **changes})


@st.composite
def histories(draw: st.DrawFn) -> list[Job]:
    """Ended jobs, newest first."""
    kinds = st.sampled_from([kind for kind in JobKind if kind is not JobKind.SYNC])
    statuses = st.sampled_from([JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELED])
    jobs = [
        ended(draw(kinds), draw(statuses), created_at=NOW - timedelta(hours=draw(st.integers(0, 200))))
        for _ in range(draw(st.integers(0, 6)))
    ]
    return sorted(jobs, key=lambda job: job.created_at, reverse=True)
