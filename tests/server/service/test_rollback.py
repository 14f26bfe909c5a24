"""Rollback beside other commits: a concurrent one is never lost, and batches that were rolled back may come again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from catalog.errors import CatalogError, CommitUnknown, DuplicateBatch, RequirementFailed, Unavailable
from catalog.iceberg.json import Json
from server.service.tables.refs import Target
from tests.factories import LAKE
from tests.server.lake import PLAIN, Lake, altered, appended, snapshot_ids, snapshot_of, void

BATCH = {"firn.writer-id": "w", "firn.batch-id": "b1"}


def roll_back(lake: Lake, to: int, *, expected: int | None = None) -> None:
    lake.services.refs.rollback(LAKE, PLAIN, Target(snapshot=str(to)), expected_head=expected)


def lineage(metadata: Json) -> list[int]:
    """Main's snapshots, newest first."""
    parents = {snapshot["snapshot-id"]: snapshot.get("parent-snapshot-id") for snapshot in metadata["snapshots"]}
    ancestors, here = [], metadata["current-snapshot-id"]
    while here is not None:
        ancestors.append(here)
        here = parents[here]
    return ancestors


def test_an_append_that_comes_first_refuses_the_rollback_and_is_kept(lake: Lake) -> None:
    lake.create()
    first, second = lake.append(PLAIN), lake.append(PLAIN)
    lake.database.meanwhile.append(lambda: void(lake.elsewhere.append(PLAIN)))
    with pytest.raises(RequirementFailed, match="branch main has changed") as refused:
        roll_back(lake, first)
    assert refused.value.hint is not None
    assert lineage(lake.metadata(PLAIN))[1:] == [second, first]


def test_a_rollback_that_comes_first_refuses_the_append(lake: Lake) -> None:
    lake.create()
    first, _ = lake.append(PLAIN), lake.append(PLAIN)
    late = appended(PLAIN, lake.metadata(PLAIN))
    roll_back(lake, first)
    with pytest.raises(RequirementFailed, match="branch main has changed"):
        lake.commit(late)
    assert lineage(lake.metadata(PLAIN)) == [first]


def test_a_head_that_is_not_the_one_that_was_shown_refuses_the_rollback(lake: Lake) -> None:
    lake.create()
    first, second = lake.append(PLAIN), lake.append(PLAIN)
    third = lake.append(PLAIN)
    with pytest.raises(RequirementFailed, match=f"main is at snapshot {third}, not at {second}"):
        roll_back(lake, first, expected=second)
    assert lineage(lake.metadata(PLAIN)) == [third, second, first]


@pytest.mark.parametrize("seed", range(4))
def test_of_a_rollback_and_appends_at_once_each_is_whole_and_none_is_lost(lake: Lake, seed: int) -> None:
    """Main is what the events say, one after the other, and every acknowledged snapshot is in the table."""
    lake.create()
    first = lake.append(PLAIN)
    for _ in range(seed):
        lake.append(PLAIN)

    def once(number: int) -> int | None:
        try:
            if number == 2:
                roll_back(lake, first)
                return 0
            change = appended(PLAIN, lake.metadata(PLAIN))
            lake.commit(change)
            return snapshot_of(change)
        except RequirementFailed:
            return None

    with ThreadPoolExecutor(5) as pool:
        outcomes = list(pool.map(once, range(5)))
    with lake.services.database.reading() as uow:
        relation = uow.relations.find(LAKE, PLAIN)
        assert relation is not None
        events = list(reversed(uow.events.list(LAKE, [relation.id], limit=100).items))
    expected: list[int] = []
    for event in events:
        if event.operation == "rollback":
            expected = [first]
        elif event.snapshot_id is not None:
            expected = [event.snapshot_id, *expected]
    metadata = lake.metadata(PLAIN)
    assert lineage(metadata) == expected
    acknowledged = {outcome for outcome in outcomes if outcome}
    assert acknowledged <= set(snapshot_ids(metadata))


def test_a_batch_that_was_rolled_back_may_be_sent_again_and_counts_once(lake: Lake) -> None:
    lake.create()
    first = lake.append(PLAIN)
    lake.append(PLAIN, summary=BATCH)
    roll_back(lake, first)
    again = lake.append(PLAIN, summary=BATCH)
    assert lineage(lake.metadata(PLAIN)) == [again, first]
    with pytest.raises(DuplicateBatch):
        lake.commit(appended(PLAIN, lake.metadata(PLAIN), summary=BATCH))


def test_a_batch_that_came_back_to_main_is_refused_again(lake: Lake) -> None:
    lake.create()
    first = lake.append(PLAIN)
    batch = lake.append(PLAIN, summary=BATCH)
    roll_back(lake, first)
    roll_back(lake, batch)
    with pytest.raises(DuplicateBatch):
        lake.commit(appended(PLAIN, lake.metadata(PLAIN), summary=BATCH))


def test_a_batch_sent_again_stays_known_when_main_goes_back_to_its_first_delivery(lake: Lake) -> None:
    lake.create()
    first = lake.append(PLAIN)
    batch = lake.append(PLAIN, summary=BATCH)
    roll_back(lake, first)
    lake.append(PLAIN, summary=BATCH)
    roll_back(lake, batch)
    assert lineage(lake.metadata(PLAIN)) == [batch, first]
    with pytest.raises(DuplicateBatch):
        lake.commit(appended(PLAIN, lake.metadata(PLAIN), summary=BATCH))


def test_an_engines_own_rollback_lets_batches_come_again_too(lake: Lake) -> None:
    lake.create()
    first = lake.append(PLAIN)
    lake.append(PLAIN, summary=BATCH)
    lake.commit(
        altered(PLAIN, {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": first})
    )
    lake.append(PLAIN, summary=BATCH)


def test_a_repeated_append_of_a_rolled_back_snapshot_is_answered_and_stays_rolled_back(lake: Lake) -> None:
    """The answer of the append was lost and its writer sends it again: it was applied, and is told so."""
    lake.create()
    first = lake.append(PLAIN)
    change = appended(PLAIN, lake.metadata(PLAIN))
    lake.commit(change)
    roll_back(lake, first)
    lake.commit(change)
    assert lineage(lake.metadata(PLAIN)) == [first]
    assert snapshot_of(change) in snapshot_ids(lake.metadata(PLAIN))


def test_a_rollback_refused_by_the_database_leaves_nothing_behind(lake: Lake) -> None:
    lake.create()
    first, second = lake.append(PLAIN), lake.append(PLAIN)
    files = lake.metadata_files()
    lake.database.refuse()
    with pytest.raises(Unavailable):
        roll_back(lake, first)
    assert lake.metadata_files() == files
    assert lineage(lake.metadata(PLAIN)) == [second, first]


def test_a_rollback_in_doubt_is_unknown_and_finds_itself_done_when_it_is_asked_for_again(lake: Lake) -> None:
    lake.create()
    first, second = lake.append(PLAIN), lake.append(PLAIN)
    lake.database.end_unknown_after_commit()
    try:
        roll_back(lake, first, expected=second)
    except CommitUnknown:
        pass
    except CatalogError as error:  # pragma: no cover -- a commit that was applied must not be refused
        pytest.fail(f"refused although it was applied: {error}")
    assert lineage(lake.metadata(PLAIN)) == [first]
    roll_back(lake, first, expected=second)
