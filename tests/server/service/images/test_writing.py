"""Rows that engines append to a keyed table under its own name become upserts (docs/protocols.md, rule 5.7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from catalog.errors import (
    CatalogError,
    CommitUnknown,
    Invalid,
    LocationRefused,
    NoSuchTable,
    OtherTable,
    PositionMoved,
    RequirementFailed,
    Unavailable,
)
from catalog.history.commit import TableCommit
from catalog.hive.mapping import PROPERTY as NAME_MAPPING
from catalog.iceberg.json import Json
from catalog.ports.images import KeyChecker
from firn.protocol.tasks.image import DeletedRows, DeletesTask, KeyReport, KeysTask, UpsertedRows, UpsertsTask
from server.service.commit.commit_path import CommitRequest, Committed, Committer
from server.service.images.writes import ImageWrites
from tests.factories import LAKE
from tests.server.lake import BASE, CHANGE, ORDERS, Lake, altered
from tests.server.service.images.keyed_lake import KeyedLake


def test_rows_are_inserted_and_replaced(orders: KeyedLake) -> None:
    orders.insert((1, "a"), (2, "b"))
    orders.append((2, "c"), (3, "d"))
    assert orders.read() == {1: "a", 2: "c", 3: "d"}
    summary = orders.lake.metadata(CHANGE)["snapshots"][-1]["summary"]
    assert (summary["operation"], summary["total-records"], summary["engine-name"]) == ("append", "2", "test")
    assert "firn.merged-through" not in summary
    assert orders.lake.keyed().pending_rows == 2


def test_writers_do_not_wait_for_each_other(orders: KeyedLake) -> None:
    first, second = orders.plan_append((1, "a")), orders.plan_append((1, "b"), (2, "c"))
    assert orders.send(second)
    assert orders.send(first)
    assert orders.read() == {1: "a", 2: "c"}


def test_an_append_that_is_overtaken_between_reading_and_committing_is_tried_again(orders: KeyedLake) -> None:
    sent = orders.plan_append((1, "mine"))
    real = orders.lake.services.image_writes
    racing = replace(real, committer=_Overtaken(real.committer, lambda: orders.upsert((1, "theirs"))))  # type: ignore[arg-type]
    assert racing.commit(sent)
    assert orders.read() == {1: "mine"}
    assert len(orders.lake.metadata(CHANGE)["snapshots"]) == 2


def test_a_commit_that_is_sent_again_changes_nothing(orders: KeyedLake) -> None:
    sent = orders.plan_append((1, "a"))
    orders.send(sent)
    orders.upsert((1, "newer"))
    assert orders.send(sent)
    assert orders.read() == {1: "newer"}
    assert len(orders.lake.metadata(CHANGE)["snapshots"]) == 2


def test_rows_that_a_writer_inserts_move_its_position(orders: KeyedLake) -> None:
    epoch = orders.lake.services.writers.register(LAKE, ORDERS, "w").epoch
    progress = {"firn.writer-epoch": str(epoch), "firn.position-from": "none", "firn.position": "t:0:1"}

    def plan(*rows: tuple[int, str]) -> CommitRequest:
        request = orders.plan_append(*rows)
        request.changes[0].updates[0]["snapshot"]["summary"].update({"firn.writer-id": "w", **progress})
        return request

    first, second = plan((1, "a")), plan((1, "again"))
    assert orders.send(first)
    assert orders.send(first)
    with pytest.raises(PositionMoved):
        orders.send(second)
    assert orders.read() == {1: "a"}
    assert orders.lake.services.writers.get(LAKE, ORDERS, "w").position == "t:0:1"


def test_two_tries_of_one_commit_at_a_time_are_applied_once(orders: KeyedLake) -> None:
    sent = orders.plan_append((1, "a"))
    real = orders.lake.services.image_writes
    late = replace(real, committer=_Overtaken(real.committer, lambda: orders.send(sent)))  # type: ignore[arg-type]
    assert late.commit(sent)
    assert orders.read() == {1: "a"}
    assert len(orders.lake.metadata(CHANGE)["snapshots"]) == 1


def test_a_commit_that_is_sent_again_after_the_drop_is_unknown(orders: KeyedLake) -> None:
    sent, never = orders.plan_append((1, "a")), orders.plan_append((2, "b"))
    orders.send(sent)
    entry = orders.lake.services.drop(LAKE, ORDERS)
    with pytest.raises(CommitUnknown):
        orders.lake.services.committer.commit(sent)
    with pytest.raises(NoSuchTable):
        orders.lake.services.committer.commit(never)
    orders.lake.services.undrops.undrop(LAKE, entry.id)
    assert orders.read() == {1: "a"}


def test_a_refusal_leaves_no_file_of_the_servers(orders: KeyedLake) -> None:
    sent = orders.plan_append((1, "a"), (1, "b"))
    before = set(Path(orders.lake.warehouse).rglob("*"))
    with pytest.raises(Invalid, match="1 keys appear more than once in the rows, such as id=1"):
        orders.send(sent)
    assert set(Path(orders.lake.warehouse).rglob("*")) == before
    assert orders.read() == {}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(1, "a"), (1, "b")], "keys appear more than once"),
        ([(None, "a")], "must not be null; null are id in 1 rows"),
    ],
)
def test_keys_are_judged_as_those_of_an_upsert(
    orders: KeyedLake, rows: Sequence[tuple[int | None, str | None]], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        orders.send(orders.plan_append(*rows))
    assert orders.read() == {}


def test_with_a_sequence_field_it_decides_between_rows_of_a_key(lake: Lake) -> None:
    lake.create_keyed(ORDERS, **{"firn.sequence-field": "note"})
    lake.commit(altered(BASE, {"action": "set-properties", "updates": {"firn.read.max-wait": "60 s"}}))
    orders = KeyedLake(lake)
    orders.append((1, "b"), (1, "a"))
    orders.append((1, "aa"))
    assert orders.read() == {1: "b"}
    with pytest.raises(Invalid, match="null are note in 1 rows"):
        orders.append((2, None))
    lake.services.images.stop()
    lake.services.image_writes.stop()


def test_too_many_rows_are_refused_before_they_are_read(orders: KeyedLake) -> None:
    few = _with_reader(orders, most_rows=1, checker=_NoChecker())
    with pytest.raises(Invalid, match="2 rows in one commit"):
        few.commit(orders.plan_append((1, "a"), (2, "b")))


def test_a_checker_that_fails_refuses_nothing(orders: KeyedLake) -> None:
    failing = _with_reader(orders, checker=_NoChecker())
    with pytest.raises(Unavailable):
        failing.commit(orders.plan_append((1, "a")))


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        (lambda u: [_with_summary(u, operation="replace"), *u[1:]], Invalid, "takes no replace"),
        (lambda u: [u[0]], Invalid, "has to end as the head of main"),
        (lambda u: [u[0], {**u[1], "ref-name": "audit"}], Invalid, "has to end as the head of main"),
        (lambda u: [u[0], u[0], u[1]], Invalid, "have to be one line"),
        (lambda u: [*u, _set_properties({"a": "b"})], Invalid, "cannot also set-properties"),
        (lambda u: [*u, _set_properties({NAME_MAPPING: "[]", "a": "b"})], Invalid, "cannot also set-properties"),
        (lambda u: [*u, _set_properties(NAME_MAPPING)], Invalid, "cannot also set-properties"),
        (lambda u: [_with_list(u, "/etc/passwd"), u[1]], LocationRefused, "directory /etc/"),
        (lambda u: [_with_list(u, None), u[1]], Invalid, "needs an id, a manifest list"),
    ],
)
def test_hostile_commits_are_refused(
    orders: KeyedLake, edit: Callable[[Sequence[Json]], Sequence[Json]], error: type[CatalogError], message: str
) -> None:
    sent = orders.plan_append((1, "a"))
    (change,) = sent.changes
    with pytest.raises(error, match=message):
        orders.send(replace(sent, changes=[replace(change, updates=edit(change.updates))]))
    assert orders.read() == {}


def test_a_mapping_of_names_beside_the_rows_changes_nothing(orders: KeyedLake) -> None:
    """iceberg-go adds one to its deletes."""
    sent = orders.plan_append((1, "a"))
    (change,) = sent.changes
    orders.send(
        replace(sent, changes=[replace(change, updates=[*change.updates, _set_properties({NAME_MAPPING: "[]"})])])
    )
    assert orders.read() == {1: "a"}
    assert NAME_MAPPING not in orders.lake.metadata(BASE)["properties"]


def test_a_commit_meant_for_another_table_is_refused(orders: KeyedLake) -> None:
    sent = orders.plan_append((1, "a"))
    (change,) = sent.changes
    other = {"type": "assert-table-uuid", "uuid": "00000000-0000-0000-0000-000000000000"}
    with pytest.raises(OtherTable):
        orders.send(replace(sent, changes=[replace(change, requirements=[other])]))


def test_files_outside_of_the_change_store_are_refused(orders: KeyedLake) -> None:
    orders.insert((1, "a"))
    sent = orders.plan_append((2, "b"), directory=orders.lake.metadata(BASE)["location"])
    with pytest.raises(LocationRefused, match="is not in the directory for new files"):
        orders.send(sent)
    assert orders.read() == {1: "a"}


def test_rows_follow_the_partitions_of_the_table(orders: KeyedLake) -> None:
    orders.append((1, "a"))
    stale = orders.plan_append((5, "e"))
    spec = {"fields": [{"name": "note", "transform": "identity", "source-id": 2, "field-id": 1000}]}
    added, chosen = {"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}
    orders.lake.commit(altered(BASE, added, chosen))
    with pytest.raises(RequirementFailed, match=r"partitions of db\.orders have changed"):
        orders.send(stale)
    orders.send(orders.plan_append((2, "b"), partition=("b",)))
    assert orders.read() == {1: "a", 2: "b"}


def test_other_updates_are_none_of_its_business(orders: KeyedLake) -> None:
    change = TableCommit(name=ORDERS, requirements=[], updates=[{"action": "set-properties", "updates": {"a": "b"}}])
    assert not orders.send(CommitRequest(catalog=LAKE, changes=[change]))


@dataclass
class _Overtaken:
    """A committer before whose first commit somebody else commits."""

    real: Committer
    other: Callable[[], object]
    was: bool = False

    def commit(self, request: CommitRequest) -> list[Committed]:
        if not self.was:
            self.was = True
            self.other()
        return self.real.commit(request)

    def has_applied(self, *args: object) -> bool:
        return self.real.has_applied(*args)  # type: ignore[arg-type]


class _NoChecker(KeyChecker):
    def check_keys(self, task: KeysTask, check: Callable[[Sequence[str]], None]) -> KeyReport:
        raise Unavailable("no checker")

    def find_deleted(self, task: DeletesTask, check: Callable[[Sequence[str]], None]) -> DeletedRows:
        raise Unavailable("no checker")

    def read_upserts(self, task: UpsertsTask, check: Callable[[Sequence[str]], None]) -> UpsertedRows:
        raise Unavailable("no checker")

    def stop(self) -> None: ...


def _with_reader(orders: KeyedLake, **parts: Any) -> ImageWrites:
    """The service with other parts of its reader."""
    real = orders.lake.services.image_writes
    return replace(real, rows=replace(real.rows, **parts))


def _with_summary(updates: Sequence[Json], **summary: str) -> Json:
    snapshot = updates[0]["snapshot"]
    return {**updates[0], "snapshot": {**snapshot, "summary": {**snapshot["summary"], **summary}}}


def _set_properties(properties: Json | str) -> Json:
    return {"action": "set-properties", "updates": properties}


def _with_list(updates: Sequence[Json], location: str | None) -> Json:
    return {**updates[0], "snapshot": {**updates[0]["snapshot"], "manifest-list": location}}
