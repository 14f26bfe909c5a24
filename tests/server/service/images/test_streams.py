"""Streams that upsert into a keyed table under its own name, a checkpoint at a time.

See docs/protocols.md, rules 5.10 and 5.11.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from catalog.errors import CommitUnknown, Invalid, RequirementFailed
from catalog.iceberg.json import Json
from server.service.commit.commit_path import CommitRequest, Committed, Committer
from tests.server.lake import BASE, CHANGE, ORDERS, Lake, altered
from tests.server.service.images.keyed_lake import KeyedLake, write_rows
from tests.server.service.images.statements import Checkpoint, find_places, plan_checkpoint, send_again


def test_rows_replace_those_with_their_keys(orders: KeyedLake) -> None:
    orders.insert((1, "a"), (2, "b"), (3, "c"))
    orders.send(plan_checkpoint(orders, Checkpoint(rows=[(2, "B"), (4, "d")], deleted=[2, 4])))
    assert orders.read() == {1: "a", 2: "B", 3: "c", 4: "d"}
    assert orders.lake.keyed().pending_rows == 2  # an equality delete of a key that has a row is none


def test_deletes_without_a_row_delete(orders: KeyedLake) -> None:
    orders.insert((1, "a"), (2, "b"), (3, "c"))
    orders.upsert((3, "C"))
    orders.send(plan_checkpoint(orders, Checkpoint(rows=[(2, "B")], deleted=[1, 2, 3, 9])))
    assert orders.read() == {2: "B"}


def test_only_rows_that_the_checkpoint_has_not_deleted_again_count(orders: KeyedLake) -> None:
    orders.insert((1, "a"), (2, "b"))
    rows = [(1, "x"), (1, "y"), (2, "x"), (3, "x")]
    orders.send(plan_checkpoint(orders, Checkpoint(rows=rows, deleted=[1, 2, 3], hidden=[0, 2])))
    assert orders.read() == {1: "y", 3: "x"}
    orders.send(plan_checkpoint(orders, Checkpoint(rows=[(3, "z")], deleted=[3], hidden=[0])))
    assert orders.read() == {1: "y"}
    orders.send(
        plan_checkpoint(orders, Checkpoint(rows=[(4, "x"), (5, "x")], hidden=[0]))
    )  # without an upsert's deletes
    assert orders.read() == {1: "y", 5: "x"}
    names = {Path(path).name for path in Path(orders.lake.warehouse).rglob("upserts-*")}
    assert len(names) == 4  # rows of the first and of the last one, and deletes of the first two


def test_a_commit_that_is_sent_again_is_applied_once(orders: KeyedLake) -> None:
    sent = plan_checkpoint(orders, Checkpoint(rows=[(1, "a"), (1, "b")], deleted=[1, 2], hidden=[0]))
    orders.send(sent)
    orders.upsert((1, "newer"), (2, "newer"))
    orders.send(sent)
    assert orders.read() == {1: "newer", 2: "newer"}
    assert len(list(Path(orders.lake.warehouse).rglob("upserts-*"))) == 2


def test_a_job_that_has_restarted_finds_its_last_commit(orders: KeyedLake) -> None:
    orders.insert((1, "a"))
    for job, number in (("job-1", 1), ("job-2", 7), ("job-1", 2)):
        orders.send(plan_checkpoint(orders, Checkpoint(rows=[(number, job)], job=job, number=number)))
    for key in range(20, 35):  # more than an image lists
        orders.append((key, "others"))
        orders.load()
    assert find_checkpoints(orders.served()) == {"job-1": 2, "job-2": 7}
    orders.lake.commit(altered(BASE, {"action": "set-properties", "updates": {"firn.read.max-wait": "0 s"}}))
    orders.send(plan_checkpoint(orders, Checkpoint(rows=[(3, "a")], number=3)))
    served = orders.served()  # an older image
    assert "firn.image.lag-ms" in served["properties"]
    assert find_checkpoints(served) == {"job-1": 3, "job-2": 7}


def test_a_connector_that_has_restarted_finds_its_last_offsets(orders: KeyedLake) -> None:
    orders.insert((1, "a"))
    for job, offsets in (("first", '{"0":4}'), ("second", '{"0":9}'), ("first", '{"0":17}')):
        orders.send(plan_checkpoint(orders, Checkpoint(rows=[(2, job)], job=job, offsets=offsets)))
    orders.append((3, "others"))
    assert find_offsets(orders.served()) == {"first": '{"0":17}', "second": '{"0":9}'}
    orders.lake.commit(altered(BASE, {"action": "set-properties", "updates": {"firn.read.max-wait": "0 s"}}))
    sent = plan_checkpoint(orders, Checkpoint(rows=[(2, "b")], job="first", offsets='{"0":23}'))
    orders.send(sent)
    served = orders.served()  # an older image
    assert "firn.image.lag-ms" in served["properties"]
    assert find_offsets(served) == {"first": '{"0":23}', "second": '{"0":9}'}
    orders.append((2, "newer"))
    orders.send(send_again(orders, sent))  # by a connector that has not found them
    assert len(orders.lake.metadata(CHANGE)["snapshots"]) == 6


def test_two_coordinators_of_a_connector_commit_no_file_twice(orders: KeyedLake) -> None:
    """Both have read the same offsets, and the second has got one file more (apache/iceberg 16282)."""
    orders.insert((1, "a"))
    both = write_rows(orders.served(), [{"id": 2, "note": "b"}])
    first, second = (
        plan_checkpoint(orders, Checkpoint(rows=rows, files=[both], offsets=offsets))
        for rows, offsets in (([], '{"0":4}'), ([(3, "c")], '{"0":6}'))
    )
    orders.send(first)
    orders.append((2, "newer"))
    with pytest.raises(RequirementFailed, match=r"another coordinator of kafka-connect control\.job-1 has committed"):
        orders.send(second)
    orders.send(plan_checkpoint(orders, Checkpoint(rows=[(3, "c")], offsets='{"0":6}')))  # by the offsets in the table
    assert orders.read() == {1: "a", 2: "newer", 3: "c"}


def test_a_checkpoint_that_is_committed_again_is_applied_once(orders: KeyedLake) -> None:
    """A job that does not find its last commit sends the same files in a new snapshot."""
    sent = plan_checkpoint(orders, Checkpoint(rows=[(1, "a")], deleted=[1]))
    orders.send(sent)
    orders.upsert((1, "newer"))
    orders.send(send_again(orders, sent))
    assert orders.read() == {1: "newer"}
    assert len(orders.lake.metadata(CHANGE)["snapshots"]) == 2


def test_jobs_with_the_same_id_and_checkpoint_commit_their_own_rows(orders: KeyedLake) -> None:
    """Each batch job of Flink calls its only checkpoint the last one, and clusters may name all their jobs alike."""
    for key in (1, 2):
        orders.send(plan_checkpoint(orders, Checkpoint(rows=[(key, "a")], deleted=[key])))
    assert orders.read() == {1: "a", 2: "a"}


REFUSED = (
    (Checkpoint(rows=[(1, "a"), (1, "b")], deleted=[1]), "1 keys appear more than once in the rows, such as id=1"),
    (Checkpoint(rows=[(None, "a")], deleted=[1]), "null are id in 1 rows"),
    (Checkpoint(deleted=[None, 1]), "null are id in 1 rows"),
    (Checkpoint(deleted=[1], equality_ids=[2]), "equality deletes on note, but the key is id"),
    (Checkpoint(deleted=[1], equality_ids=[1, 2]), "equality deletes on id, note, but the key is id"),
    (
        Checkpoint(deleted=[1], others=[("file:///etc/passwd", 0)]),
        "deletes rows of file:///etc/passwd, which",
    ),
)


def test_what_a_keyed_table_does_not_take_is_refused(orders: KeyedLake) -> None:
    orders.insert((1, "a"))
    of_base = (
        Checkpoint(deleted=[2], others=find_places(orders, {1})),
        "deletes rows of file:.*, which it has not",
    )
    for checkpoint, message in (*REFUSED, of_base):
        sent = plan_checkpoint(orders, checkpoint)
        before = set(Path(orders.lake.warehouse).rglob("*"))
        with pytest.raises(Invalid, match=message):
            orders.send(sent)
        assert set(Path(orders.lake.warehouse).rglob("*")) == before
    assert orders.read() == {1: "a"}


def test_too_many_rows_are_refused_before_they_are_read(orders: KeyedLake) -> None:
    real = orders.lake.services.image_writes
    few = replace(real, rows=replace(real.rows, most_rows=2))
    with pytest.raises(Invalid, match="3 rows in one commit"):
        few.commit(plan_checkpoint(orders, Checkpoint(rows=[(1, "a")], deleted=[1, 2])))


def test_after_an_unknown_outcome_the_rows_are_there_and_the_checkpoint_is_applied_once(orders: KeyedLake) -> None:
    sent = plan_checkpoint(orders, Checkpoint(rows=[(1, "a"), (1, "b")], hidden=[0], deleted=[1, 2]))
    real = orders.lake.services.image_writes
    with pytest.raises(CommitUnknown):
        replace(real, committer=_Unanswered(real.committer)).commit(sent)  # type: ignore[arg-type]
    assert orders.read() == {1: "b"}
    pending = orders.lake.keyed().pending_rows
    assert orders.send(sent)
    assert (orders.read(), orders.lake.keyed().pending_rows) == ({1: "b"}, pending)


def test_a_table_that_is_partitioned_outside_of_its_key_takes_no_equality_deletes(orders: KeyedLake) -> None:
    orders.insert((1, "a"))
    spec = {"fields": [{"name": "note", "transform": "identity", "source-id": 2, "field-id": 1000}]}
    orders.lake.commit(
        altered(BASE, {"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1})
    )
    with pytest.raises(Invalid, match=r"db\.orders is partitioned by note, outside of its key"):
        orders.send(plan_checkpoint(orders, Checkpoint(deleted=[1]), partition={"note": "a"}))


def test_deletes_go_to_the_partition_of_their_keys(orders: KeyedLake) -> None:
    orders.insert((1, "a"), (2, "b"))
    spec = {"fields": [{"name": "id", "transform": "identity", "source-id": 1, "field-id": 1000}]}
    orders.lake.commit(
        altered(BASE, {"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1})
    )
    orders.send(plan_checkpoint(orders, Checkpoint(deleted=[1]), partition={"id": 1}))
    rows = [(2, "x"), (2, "B")]
    orders.send(plan_checkpoint(orders, Checkpoint(rows=rows, hidden=[0], deleted=[2]), partition={"id": 2}))
    assert orders.read() == {2: "B"}
    assert orders.read(row_filter="id = 2") == {2: "B"}


def test_with_a_sequence_field_rows_carry_its_value_and_deletes_do_not(lake: Lake) -> None:
    lake.create_keyed(ORDERS, **{"firn.sequence-field": "note", "firn.read.max-wait": "60 s"})
    orders = KeyedLake(lake)
    orders.append((1, "b"))
    orders.send(plan_checkpoint(orders, Checkpoint(rows=[(1, "a"), (2, "c")], deleted=[1, 2])))
    assert orders.read() == {1: "b", 2: "c"}
    with pytest.raises(Invalid, match="whose value an equality delete does not give"):
        orders.send(plan_checkpoint(orders, Checkpoint(deleted=[1])))
    assert orders.read() == {1: "b", 2: "c"}
    assert not list(Path(lake.warehouse).rglob("upserts-*"))
    lake.services.images.stop()
    lake.services.image_writes.stop()


@dataclass(frozen=True)
class _Unanswered:
    """A committer whose commits are applied, and which cannot say so."""

    real: Committer

    def commit(self, request: CommitRequest) -> list[Committed]:
        self.real.commit(request)
        raise CommitUnknown("the answer of the database was lost")

    def has_applied(self, *args: object) -> bool:
        return self.real.has_applied(*args)  # type: ignore[arg-type]


def find_checkpoints(metadata: Json) -> dict[str, int]:
    """What a job of Flink finds: the newest checkpoint of each job among the head's ancestors."""
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in metadata["snapshots"]}
    counts: dict[str, int] = {}
    snapshot = by_id[metadata["current-snapshot-id"]]
    while snapshot is not None:
        job = snapshot["summary"].get("flink.job-id")
        if job is not None and job not in counts:
            counts[job] = int(snapshot["summary"]["flink.max-committed-checkpoint-id"])
        snapshot = by_id.get(snapshot.get("parent-snapshot-id"))
    return counts


def find_offsets(metadata: Json) -> dict[str, str]:
    """What connectors find: the newest offsets of each among the head's ancestors."""
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in metadata["snapshots"]}
    offsets: dict[str, str] = {}
    snapshot = by_id[metadata["current-snapshot-id"]]
    while snapshot is not None:
        for name, text in snapshot["summary"].items():
            if name.startswith("kafka.connect.offsets.control."):
                offsets.setdefault(name.rpartition(".")[2], text)
        snapshot = by_id.get(snapshot.get("parent-snapshot-id"))
    return offsets
