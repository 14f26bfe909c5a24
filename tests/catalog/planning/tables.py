"""What planning may know of a table: whatever hypothesis thinks of, and handy ones."""

from __future__ import annotations

import operator
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from catalog.job import Job, JobKind, JobStatus
from catalog.keyed.spec import KeySpec
from catalog.planning import TableFacts
from catalog.policy.policy import layered
from catalog.relation import TableStats
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


_OF_FACTS = ("hive_linked", "created_at", "blockers", "keeps_orphans")


def plain(policy: dict[str, str] | None = None, **counted: Any) -> TableFacts:
    """A plain table with these counters, made a moment ago."""
    more = {name: counted.pop(name) for name in _OF_FACTS if name in counted}
    stats = TableStats(relation_id=PLAIN.relation_id, **{"snapshot_id": 7, **counted})
    return TableFacts(policy=layered([("table", policy or {})]), stats=stats, **{"created_at": NOW, **more})


def counters(relation_id: Any) -> st.SearchStrategy[TableStats]:
    """Any counters, sensible or not."""
    few = st.integers(0, 300)
    small = st.shared(few, key=f"small {relation_id}")
    moments = st.integers(0, 40 * 24).map(lambda hours: NOW - timedelta(hours=hours))
    return st.builds(
        TableStats,
        relation_id=st.just(relation_id),
        snapshot_id=st.one_of(st.none(), st.integers(1, 9)),
        sequence_number=few,
        snapshots=few,
        records=st.integers(0, 10**7),
        data_files=st.builds(operator.add, small, few),
        delete_files=few,
        bytes=st.integers(0, 10**12),
        small_files=small,
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
    return TableFacts(
        policy=layered([("table", draw(policies))]),
        stats=draw(counters(KEYED.base_id)),
        keyed=keyed,
        change=None if keyed is None else draw(counters(KEYED.change_id)),
        hive_linked=draw(st.booleans()),
        keeps_orphans=draw(st.sampled_from([None, "it is shared"])),
        created_at=NOW - timedelta(days=draw(st.integers(0, 40))),
    )


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
