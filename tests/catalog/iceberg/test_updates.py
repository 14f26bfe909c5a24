"""One spelling behind the edge: whatever is applied is also what was judged."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.errors import CommitRefused, Invalid
from catalog.iceberg.json import Json
from catalog.iceberg.updates import parse_updates
from catalog.jobs.job import JobKind
from catalog.keyed.store_commit import StoreCommit, guard_commit
from catalog.maintenance import kind_of
from catalog.tables.relation import RelationKind
from tests.catalog.keyed.keyed_commits import BASE, CHANGE, SPEC, snapshot
from tests.factories import a_keyed_table


def on_base(*updates: Json, job_kind: JobKind | None = None) -> StoreCommit:
    return StoreCommit(
        role=RelationKind.BASE,
        keyed=a_keyed_table(spec=SPEC, pending_commits=1),
        base=BASE,
        change=CHANGE,
        updates=parse_updates(updates),
        job_kind=job_kind,
        job_operations=frozenset() if job_kind is None else kind_of(job_kind).commits[RelationKind.BASE],
    )


def test_actions_are_judged_whatever_their_case() -> None:
    add, move = snapshot(BASE, 5, operation="overwrite")
    with pytest.raises(CommitRefused, match="merge first"):
        guard_commit(on_base({**add, "action": "Add-Snapshot"}, {**move, "action": "SET-SNAPSHOT-REF"}))


@pytest.mark.parametrize("word", ["updates", "updated"])
def test_fixed_properties_stay_under_the_old_word_for_updates_too(word: str) -> None:
    with pytest.raises(CommitRefused, match=r"gc\.enabled"):
        guard_commit(on_base({"action": "set-properties", word: {"gc.enabled": "true"}}))


@pytest.mark.parametrize("word", ["removals", "removed"])
def test_fixed_properties_stay_under_the_old_word_for_removals_too(word: str) -> None:
    with pytest.raises(CommitRefused, match="primary-key"):
        guard_commit(on_base({"action": "remove-properties", word: ["firn.primary-key"]}))


def test_what_is_spelled_as_the_specification_does_stays_as_it_was_sent() -> None:
    """A job's repeated commit is known by a digest of its updates."""
    sent = [*snapshot(BASE, 5), {"action": "set-properties", "updates": {"a": "b"}}, {"action": "unheard-of", "x": 1}]
    assert parse_updates(sent) == sent


@pytest.mark.parametrize(
    "update",
    [
        {},
        {"action": None},
        {"action": "add-snapshot"},
        {"action": "add-snapshot", "snapshot": []},
        {"action": "add-snapshot", "snapshot": {"snapshot-id": [1]}},
        {"action": "add-schema", "schema": {"type": "struct"}},
        {"action": "add-schema", "schema": {"type": "struct", "fields": [], "identifier-field-ids": "id"}},
        {"action": "set-properties", "updates": {"a": 1}},
        {"action": "set-properties"},
        {"action": "remove-properties", "removals": {"a": "b"}},
        {"action": "remove-snapshots", "snapshot-ids": [[1]]},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch"},
        {"action": "set-snapshot-ref", "ref-name": 1, "type": "branch", "snapshot-id": 1},
        {"action": "remove-snapshot-ref"},
        {"action": "set-location", "location": 5},
        {"action": "assign-uuid", "uuid": None},
    ],
)
def test_what_a_judge_would_stumble_over_is_refused_first(update: Any) -> None:
    with pytest.raises(Invalid):
        parse_updates([update])


@pytest.mark.parametrize("milliseconds", [-1, 2**62])
def test_a_snapshot_is_dated_in_a_year_that_readers_know(milliseconds: int) -> None:
    add, move = snapshot(BASE, 5)
    dated = {**add, "snapshot": {**add["snapshot"], "timestamp-ms": milliseconds}}
    with pytest.raises(Invalid, match="timestamp-ms"):
        parse_updates([dated, move])
