"""`DELETE`, `UPDATE` and `MERGE` on a keyed table under its own name, by engines that merge on read.

See docs/protocols.md, rule 5.8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from catalog.errors import CatalogError, Invalid, LocationRefused, RequirementFailed
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from server.service.commit.commit_path import CommitRequest, Committed, Committer
from tests.databases import ON_SQLITE
from tests.factories import LAKE
from tests.server.lake import BASE, CHANGE, ORDERS, Lake, altered, set_property
from tests.server.service.images.keyed_lake import KeyedLake
from tests.server.service.images.statements import (
    find_places,
    plan_overwrite,
    plan_removal,
    plan_rewriting_delete,
    plan_statement,
)

pytestmark = ON_SQLITE


@pytest.fixture
def filled(orders: KeyedLake) -> KeyedLake:
    """Three rows of base, of which one has been changed, and a new one."""
    orders.insert((1, "a"), (2, "b"), (3, "c"))
    orders.upsert((2, "B"), (4, "d"))
    return orders


def test_rows_of_base_and_of_changes_are_deleted(filled: KeyedLake) -> None:
    filled.send(plan_statement(filled, deleted=[1, 2]))
    assert filled.read() == {3: "c", 4: "d"}
    assert filled.lake.keyed().pending_rows == 4


def test_an_update_deletes_first_and_then_inserts(filled: KeyedLake) -> None:
    filled.send(plan_statement(filled, deleted=[1, 2], upserted=[(1, "x"), (2, "y"), (5, "z")]))
    assert filled.read() == {1: "x", 2: "y", 3: "c", 4: "d", 5: "z"}


def test_a_key_that_is_updated_is_a_new_row(filled: KeyedLake) -> None:
    filled.send(plan_statement(filled, deleted=[1], upserted=[(7, "a")]))
    assert filled.read() == {2: "B", 3: "c", 4: "d", 7: "a"}


def test_files_that_are_deleted_as_a_whole_lose_the_rows_that_were_left(filled: KeyedLake) -> None:
    filled.send(plan_removal(filled, holding=[1]))  # the file of base, whose row 2 is hidden
    assert filled.read() == {2: "B", 4: "d"}


def test_a_statement_that_is_sent_again_is_applied_once(filled: KeyedLake) -> None:
    sent = plan_statement(filled, deleted=[1])
    filled.send(sent)
    filled.upsert((1, "again"))
    filled.send(sent)
    assert filled.read() == {1: "again", 2: "B", 3: "c", 4: "d"}


def test_a_statement_on_an_earlier_state_is_planned_again(filled: KeyedLake) -> None:
    sent = plan_statement(filled, deleted=[1])
    filled.upsert((9, "i"))
    with pytest.raises(RequirementFailed, match="has changed since the statement read it"):
        filled.send(sent)
    assert filled.read() == {1: "a", 2: "B", 3: "c", 4: "d", 9: "i"}


@pytest.mark.parametrize("whole", [False, True])
def test_rows_that_were_changed_meanwhile_are_not_deleted(filled: KeyedLake, *, whole: bool) -> None:
    """Java's library sends a refused commit again on the newest state, with the positions of the earlier one."""
    stale = plan_removal(filled, holding=[4]) if whole else plan_statement(filled, deleted=[4])
    filled.upsert((4, "newer"))
    filled.lake.commit(altered(BASE, set_property("a", "b")))  # so that the next image is not built on this one
    with pytest.raises(Invalid, match="has changed while the statement ran"):
        filled.send(_on(stale, filled))
    assert filled.read() == {1: "a", 2: "B", 3: "c", 4: "newer"}


def test_rows_of_base_that_changes_hide_are_not_deleted(filled: KeyedLake) -> None:
    stale = plan_statement(filled, deleted=[1])
    filled.upsert((1, "newer"))
    with pytest.raises(Invalid, match=r"rows of .* have been changed"):
        filled.send(_on(stale, filled))
    assert filled.read()[1] == "newer"


def test_rows_that_are_appended_to_base_meanwhile_make_the_statement_plan_again(filled: KeyedLake) -> None:
    sent = plan_statement(filled, deleted=[1])
    real = filled.lake.services.image_writes
    racing = replace(real, committer=_Overtaken(real.committer, filled))  # type: ignore[arg-type]
    with pytest.raises(RequirementFailed, match="has changed since"):
        racing.commit(sent)
    assert filled.read() == {1: "a", 2: "B", 3: "c", 4: "d", 8: "h"}
    assert not list(Path(filled.lake.warehouse).rglob("deletes-*"))


def test_places_that_the_table_does_not_have_are_refused(filled: KeyedLake) -> None:
    ((path, _),) = find_places(filled, {1})
    with pytest.raises(CatalogError, match="no row at position 77"):
        filled.send(plan_statement(filled, places=[(path, 77)]))
    with pytest.raises(Invalid, match="/etc/passwd is not a file of the table"):
        filled.send(plan_statement(filled, places=[("file:///etc/passwd", 0)]))
    assert len(filled.lake.metadata(CHANGE)["snapshots"]) == 1


@pytest.mark.parametrize(
    ("plan", "rows"), [(partial(plan_statement, deleted=[1, 4]), 2), (partial(plan_removal, holding=[1]), 2)]
)
def test_more_rows_than_the_server_reads_are_refused_before_they_are_read(
    filled: KeyedLake, plan: Callable[[KeyedLake], CommitRequest], rows: int
) -> None:
    real = filled.lake.services.image_writes
    few = replace(real, rows=replace(real.rows, most_rows=rows - 1))
    with pytest.raises(Invalid, match=rf"deletes {rows} rows, more than the server reads") as error:
        few.commit(plan(filled))
    assert "run it in parts" in str(error.value.hint)
    before = filled.lake.metadata(CHANGE)
    assert replace(few, rows=replace(few.rows, most_rows=rows)).commit(plan(filled))
    assert filled.lake.metadata(CHANGE) != before


def test_copies_on_write_are_refused(filled: KeyedLake) -> None:
    with pytest.raises(Invalid, match="takes no overwrite"):
        filled.send(plan_removal(filled, holding=[1], upserted=[(1, "x")]))


def test_a_commit_may_remove_files_in_one_snapshot_and_append_in_the_next(filled: KeyedLake) -> None:
    sent = plan_overwrite(filled, holding=[1], rows=[(3, "x"), (5, "e")])
    stale = plan_overwrite(filled, holding=[1], rows=[(6, "f")])
    filled.send(sent)  # the file of base has keys 1, 2 and 3, of which 2 is hidden
    assert filled.read() == {2: "B", 3: "x", 4: "d", 5: "e"}
    filled.upsert((5, "newer"))
    filled.send(sent)
    with pytest.raises(RequirementFailed, match="has changed since the statement read it"):
        filled.send(stale)
    assert filled.read() == {2: "B", 3: "x", 4: "d", 5: "newer"}


def test_snapshots_of_a_commit_are_judged_each(filled: KeyedLake) -> None:
    (change,) = plan_overwrite(filled, holding=[1], rows=[(5, "e")]).changes
    (copied,) = plan_removal(filled, holding=[1], upserted=[(1, "x")]).changes
    first, moved, second, _ = change.updates
    apart = {**second, "snapshot": {**second["snapshot"], "parent-snapshot-id": 1}}
    for updates, message in (
        ([*copied.updates, _with_parent(second, copied), change.updates[3]], "takes no overwrite"),
        ([first, moved, apart], "have to be one line"),
        ([first, second, moved], "has to end as the head of main"),
    ):
        with pytest.raises(Invalid, match=message):
            filled.send(CommitRequest(catalog=LAKE, changes=[replace(change, updates=updates)]))
    assert filled.read() == {1: "a", 2: "B", 3: "c", 4: "d"}


def test_delete_files_may_lie_beside_the_data_but_not_outside_of_the_warehouse(filled: KeyedLake) -> None:
    """DuckDB writes them there. The server reads them once."""
    sent = plan_statement(filled, deleted=[1], directory=filled.lake.metadata(BASE)["location"])
    filled.send(sent)
    assert filled.read() == {2: "B", 3: "c", 4: "d"}
    outside = str(Path(filled.lake.warehouse).parent / "outside")
    with pytest.raises(LocationRefused, match="outside"):
        filled.send(plan_statement(filled, deleted=[3], directory=outside))
    assert filled.read() == {2: "B", 3: "c", 4: "d"}


def test_an_engine_may_write_a_delete_file_of_the_image_anew(filled: KeyedLake) -> None:
    """Iceberg's writer for Spark adds the positions of delete files of one data file to its own, and removes them."""
    filled.send(plan_rewriting_delete(filled, [1]))
    assert filled.read() == {2: "B", 3: "c", 4: "d"}
    stale = plan_rewriting_delete(filled, [3])
    filled.upsert((3, "newer"))
    filled.lake.commit(altered(BASE, set_property("a", "b")))
    with pytest.raises(Invalid, match="is not a file of the table any more"):
        filled.send(_on(stale, filled))
    assert filled.read() == {2: "B", 3: "newer", 4: "d"}


def test_with_a_sequence_field_rows_may_be_updated_and_not_deleted(lake: Lake) -> None:
    lake.create_keyed(ORDERS, **{"firn.sequence-field": "note", "firn.read.max-wait": "60 s"})
    orders = KeyedLake(lake)
    orders.append((1, "a"), (2, "a"))
    with pytest.raises(Invalid, match="has a sequence field"):
        orders.send(plan_statement(orders, deleted=[1]))
    with pytest.raises(Invalid, match="has a sequence field"):
        orders.send(plan_statement(orders, deleted=[1, 2], upserted=[(1, "b"), (3, "b")]))
    assert not list(Path(lake.warehouse).rglob("deletes-*"))
    orders.send(plan_statement(orders, deleted=[1], upserted=[(1, "b"), (3, "b")]))
    assert orders.read() == {1: "b", 2: "a", 3: "b"}
    lake.services.images.stop()
    lake.services.image_writes.stop()


def test_an_update_is_judged_though_it_needs_no_deletes(filled: KeyedLake) -> None:
    sent = plan_statement(filled, deleted=[1], upserted=[(1, "x")])
    real = filled.lake.services.image_writes
    racing = replace(real, committer=_Overtaken(real.committer, filled))  # type: ignore[arg-type]
    with pytest.raises(RequirementFailed, match="has changed since"):
        racing.commit(sent)
    pending = filled.lake.keyed().pending_rows
    filled.send(plan_statement(filled, deleted=[1], upserted=[(1, "x")]))
    assert filled.lake.keyed().pending_rows == pending + 1
    assert filled.read() == {1: "x", 2: "B", 3: "c", 4: "d", 8: "h"}


def test_under_partition_scope_a_row_that_moves_is_deleted_where_it_was(lake: Lake) -> None:
    lake.create_keyed(ORDERS, **{"firn.key.scope": "partition", "firn.read.max-wait": "60 s"})
    orders = KeyedLake(lake)
    spec = {"fields": [{"name": "note", "transform": "identity", "source-id": 2, "field-id": 1000}]}
    lake.commit(altered(BASE, {"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}))
    orders.send(orders.plan_append((1, "a"), partition=("a",)))
    orders.send(plan_statement(orders, deleted=[1], upserted=[(1, "b")], partition={"note": "b"}))
    assert orders.read() == {1: "b"}
    lake.services.images.stop()
    lake.services.image_writes.stop()


def _with_parent(update: Json, commit: TableCommit) -> Json:
    parent = commit.updates[0]["snapshot"]["snapshot-id"]
    return {**update, "snapshot": {**update["snapshot"], "parent-snapshot-id": parent}}


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
