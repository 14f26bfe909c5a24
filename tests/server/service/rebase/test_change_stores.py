"""Changes of several writers of one keyed table: an overtaken one is rebased if it names its position or batch."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from catalog.errors import CommitRefused, DuplicateBatch, PositionMoved, RequirementFailed, WriterFenced
from catalog.iceberg.json import Json
from catalog.jobs.job import JobKind
from tests.factories import LAKE
from tests.server.appending import Sent, an_append, entries_in
from tests.server.lake import BASE, CHANGE, ORDERS, Lake, altered, merged


@pytest.fixture
def keyed(lake: Lake) -> Lake:
    """A keyed table with one change, without `firn.append.rebase`."""
    lake.create_keyed()
    lake.commit(an_append(lake, [0], name=CHANGE).change)
    return lake


def of_batch(batch: str, writer: str = "w") -> dict[str, str]:
    return {"firn.writer-id": writer, "firn.batch-id": batch}


def registered(lake: Lake, writer: str = "w") -> dict[str, str]:
    """The progress of the writer's first commit, to position 5 of a topic."""
    copy = lake.services.writers.register(LAKE, ORDERS, writer)
    steps = {"firn.position-from": copy.position, "firn.position": "t:0:5"}
    return {"firn.writer-id": writer, "firn.writer-epoch": str(copy.epoch), **steps}


def overtaken(lake: Lake, summary: Mapping[str, str], by: Mapping[str, str] | None = None) -> Sent:
    """A change of row 1 that another one, of row 2, has overtaken."""
    mine = an_append(lake, [1], name=CHANGE, summary=summary)
    lake.commit(an_append(lake, [2], name=CHANGE, summary=by).change)
    return mine


def head(lake: Lake) -> Json:
    snapshot: Json = lake.metadata(CHANGE)["snapshots"][-1]
    return snapshot


@pytest.mark.parametrize("names", ["position", "batch"])
def test_a_change_that_names_its_position_or_batch_is_rebased_onto_the_head(keyed: Lake, names: str) -> None:
    summary = registered(keyed) if names == "position" else of_batch("b1")
    mine = overtaken(keyed, summary, by=of_batch("b1", writer="other"))
    before = head(keyed)
    keyed.commit(mine.change)
    after = head(keyed)
    assert (after["snapshot-id"], after["parent-snapshot-id"]) == (mine.snapshot["snapshot-id"], before["snapshot-id"])
    assert after["sequence-number"] == before["sequence-number"] + 1
    assert [entry["data_file"]["first_row_id"] for entry in entries_in(keyed, CHANGE)] in ([2, 1, 0], [0, 1, 2])
    pending = keyed.keyed()
    assert (pending.pending_rows, pending.change_sequence) == (3, after["sequence-number"])
    keyed.commit(mine.change)  # a repeated request
    assert head(keyed) == after


def test_a_change_without_a_name_is_refused_as_before(keyed: Lake) -> None:
    mine = overtaken(keyed, {})
    with pytest.raises(CommitRefused, match="the new snapshot's parent is not the head of the change store"):
        keyed.commit(mine.change)
    assert len(entries_in(keyed, CHANGE)) == 2


def test_the_position_is_checked_again_at_the_new_head(keyed: Lake) -> None:
    summary = registered(keyed)
    mine = overtaken(keyed, summary, by=summary)  # the same records, which another copy of the commit has brought
    with pytest.raises(PositionMoved, match="the table is at 't:0:5'"):
        keyed.commit(mine.change)
    next_step = summary | {"firn.position-from": "t:0:5", "firn.position": "t:0:9"}
    late = overtaken(keyed, next_step)
    registered(keyed)
    with pytest.raises(WriterFenced):
        keyed.commit(late.change)
    assert len(entries_in(keyed, CHANGE)) == 3


def test_a_batch_that_came_first_refuses_the_overtaken_one(keyed: Lake) -> None:
    mine = overtaken(keyed, of_batch("b1"), by=of_batch("b1"))
    with pytest.raises(DuplicateBatch):
        keyed.commit(mine.change)


def test_a_rebased_change_is_above_the_watermark_of_a_merge_that_came_before(keyed: Lake) -> None:
    mine = an_append(keyed, [1], name=CHANGE, summary=of_batch("b1"))
    keyed.commit(an_append(keyed, [2], name=CHANGE).change)
    keyed.commit(merged(keyed), lease=keyed.lease(JobKind.MERGE))
    keyed.commit(mine.change)
    assert keyed.keyed().pending_rows == 1
    assert head(keyed)["sequence-number"] > int(keyed.metadata(BASE)["snapshots"][-1]["summary"]["firn.merged-through"])


def test_a_change_that_is_more_than_an_append_is_refused(keyed: Lake) -> None:
    mine = overtaken(keyed, of_batch("b1") | {"flink.max-committed-checkpoint-id": "7"})
    with pytest.raises(CommitRefused, match="parent is not the head"):
        keyed.commit(mine.change)


def test_columns_that_changed_meanwhile_are_refused(keyed: Lake) -> None:
    mine = an_append(keyed, [1], name=CHANGE, summary=of_batch("b1"))
    schema = keyed.metadata(BASE)["schemas"][-1]
    renamed = [{**field, "name": "text"} if field["id"] == 2 else field for field in schema["fields"]]
    last = {"action": "set-current-schema", "schema-id": -1}
    keyed.commit(altered(BASE, {"action": "add-schema", "schema": {**schema, "fields": renamed}}, last))
    keyed.commit(an_append(keyed, [2], name=CHANGE).change)
    with pytest.raises((CommitRefused, RequirementFailed)):
        keyed.commit(mine.change)


def test_a_rebased_change_has_the_position_of_the_log_of_the_new_head(lake: Lake) -> None:
    """docs/protocols.md, rule 6.6: a drain and another writer overtake each other."""
    log = {"firn.log.topic": "t", "firn.log.brokers": "kafka:9092", "firn.log.format": "firn-json"}
    lake.create_keyed(ORDERS, **log)
    lake.commit(an_append(lake, [0], name=CHANGE).change)
    drained = registered(lake, "log") | {"firn.log-topic-id": "a"}
    other = overtaken(lake, of_batch("b1"), by=drained)
    lake.commit(other.change)
    assert [head(lake)["summary"].get(key) for key in ("firn.log-position", "firn.log-topic-id")] == ["t:0:5", "a"]
    again = lake.services.writers.register(LAKE, ORDERS, "log")
    step = {"firn.writer-epoch": str(again.epoch), "firn.position-from": "t:0:5", "firn.position": "t:0:9"}
    drain = an_append(lake, [3], name=CHANGE, summary={**drained, **step})
    lake.commit(an_append(lake, [4], name=CHANGE, summary=of_batch("b2")).change)
    assert head(lake)["summary"]["firn.log-position"] == "t:0:5"
    lake.commit(drain.change)
    assert head(lake)["summary"]["firn.log-position"] == "t:0:9"
