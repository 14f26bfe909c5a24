"""`DELETE`, `UPDATE` and `MERGE` on a keyed table under its own name, by engines that merge on read (rule 5.8)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from catalog.errors import Invalid, RequirementFailed
from server.service.commit.commit_path import CommitRequest, Committed, Committer
from tests.server.lake import BASE, CHANGE, ORDERS, Lake, altered, set_property
from tests.server.service.images.keyed_lake import KeyedLake


@pytest.fixture
def filled(orders: KeyedLake) -> KeyedLake:
    """Three rows of base, of which one has been changed, and a new one."""
    orders.insert((1, "a"), (2, "b"), (3, "c"))
    orders.upsert((2, "B"), (4, "d"))
    return orders


def test_rows_of_base_and_of_changes_are_deleted(filled: KeyedLake) -> None:
    filled.send(filled.plan_statement(deleted=[1, 2]))
    assert filled.read() == {3: "c", 4: "d"}
    assert filled.lake.keyed().pending_rows == 4


def test_an_update_deletes_first_and_then_inserts(filled: KeyedLake) -> None:
    filled.send(filled.plan_statement(deleted=[1, 2], upserted=[(1, "x"), (2, "y"), (5, "z")]))
    assert filled.read() == {1: "x", 2: "y", 3: "c", 4: "d", 5: "z"}


def test_a_key_that_is_updated_is_a_new_row(filled: KeyedLake) -> None:
    filled.send(filled.plan_statement(deleted=[1], upserted=[(7, "a")]))
    assert filled.read() == {2: "B", 3: "c", 4: "d", 7: "a"}


def test_files_that_are_deleted_as_a_whole_lose_the_rows_that_were_left(filled: KeyedLake) -> None:
    filled.send(filled.plan_statement(deleted=[1], whole=True))  # the file of base, whose row 2 is hidden
    assert filled.read() == {2: "B", 4: "d"}


def test_a_statement_that_is_sent_again_is_applied_once(filled: KeyedLake) -> None:
    sent = filled.plan_statement(deleted=[1])
    filled.send(sent)
    filled.upsert((1, "again"))
    filled.send(sent)
    assert filled.read() == {1: "again", 2: "B", 3: "c", 4: "d"}


def test_a_statement_on_an_earlier_state_is_planned_again(filled: KeyedLake) -> None:
    sent = filled.plan_statement(deleted=[1])
    filled.upsert((9, "i"))
    with pytest.raises(RequirementFailed, match="has changed since the statement read it"):
        filled.send(sent)
    assert filled.read() == {1: "a", 2: "B", 3: "c", 4: "d", 9: "i"}


@pytest.mark.parametrize("whole", [False, True])
def test_rows_that_were_changed_meanwhile_are_not_deleted(filled: KeyedLake, *, whole: bool) -> None:
    """Java's library sends a refused commit again on the newest state, with the positions of the earlier one."""
    stale = filled.plan_statement(deleted=[4], whole=whole)
    filled.upsert((4, "newer"))
    filled.lake.commit(altered(BASE, set_property("a", "b")))  # so that the next image is not built on this one
    with pytest.raises(Invalid, match="has changed while the statement ran"):
        filled.send(_on(stale, filled))
    assert filled.read() == {1: "a", 2: "B", 3: "c", 4: "newer"}


def test_rows_of_base_that_changes_hide_are_not_deleted(filled: KeyedLake) -> None:
    stale = filled.plan_statement(deleted=[1])
    filled.upsert((1, "newer"))
    with pytest.raises(Invalid, match=r"rows of .* have been changed"):
        filled.send(_on(stale, filled))
    assert filled.read()[1] == "newer"


def test_rows_that_are_appended_to_base_meanwhile_make_the_statement_plan_again(filled: KeyedLake) -> None:
    sent = filled.plan_statement(deleted=[1])
    real = filled.lake.services.image_writes
    racing = replace(real, committer=_Overtaken(real.committer, filled))  # type: ignore[arg-type]
    with pytest.raises(RequirementFailed, match="has changed since"):
        racing.commit(sent)
    assert filled.read() == {1: "a", 2: "B", 3: "c", 4: "d", 8: "h"}
    assert not list(Path(filled.lake.warehouse).rglob("deletes-*"))


def test_a_position_that_no_file_has_is_refused(filled: KeyedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    places = filled._find_places({1})
    monkeypatch.setattr(KeyedLake, "_find_places", lambda *_: [(places[0][0], 77)])
    with pytest.raises(Exception, match="no row at position 77"):
        filled.send(filled.plan_statement(deleted=[1]))
    monkeypatch.setattr(KeyedLake, "_find_places", lambda *_: [("file:///etc/passwd", 0)])
    with pytest.raises(Invalid, match="/etc/passwd is not a file of the table"):
        filled.send(filled.plan_statement(deleted=[1]))
    assert len(filled.lake.metadata(CHANGE)["snapshots"]) == 1


def test_copies_on_write_are_refused(filled: KeyedLake) -> None:
    with pytest.raises(Invalid, match="takes no overwrite"):
        filled.send(filled.plan_statement(deleted=[1], upserted=[(1, "x")], whole=True))


def test_with_vectors_statements_are_refused(filled: KeyedLake) -> None:
    filled.lake.commit(altered(BASE, set_property("firn.read.format-version", "3")))
    with pytest.raises(Invalid, match="served in format v3"):
        filled.send(filled.plan_statement(deleted=[1]))


def test_with_a_sequence_field_statements_are_refused(lake: Lake) -> None:
    lake.create_keyed(ORDERS, **{"firn.sequence-field": "note", "firn.read.max-wait": "60 s"})
    orders = KeyedLake(lake)
    orders.append((1, "a"))
    with pytest.raises(Invalid, match="has a sequence field"):
        orders.send(orders.plan_statement(deleted=[1]))
    lake.services.images.stop()
    lake.services.image_writes.stop()


def _on(stale: CommitRequest, orders: KeyedLake) -> CommitRequest:
    """The commit, sent again on the table as it is now."""
    parent = orders.served()["current-snapshot-id"]
    (change,) = stale.changes
    first, *others = change.updates
    moved = {**first, "snapshot": {**first["snapshot"], "parent-snapshot-id": parent}}
    return replace(stale, changes=[replace(change, requirements=[], updates=[moved, *others])])


@dataclass
class _Overtaken:
    """A committer before whose first commit a row is appended to base."""

    real: Committer
    orders: KeyedLake
    was: bool = False

    def commit(self, request: CommitRequest) -> list[Committed]:
        if not self.was:
            self.was = True
            self.orders.insert((8, "h"))
        return self.real.commit(request)

    def has_applied(self, *args: Any) -> bool:
        return self.real.has_applied(*args)
