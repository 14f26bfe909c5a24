"""Drops, undrops, purges, creates and commits at the same time: each ends as if they had come one after another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier

from catalog.errors import CatalogError
from catalog.names import TableName
from catalog.tables.relation import Relation
from tests.factories import LAKE
from tests.server.lake import CHANGE, ORDERS, PLAIN, Lake
from tests.server.service.dropping import append_files, files_below, listed, purge_all

ROUNDS = 8
A, B = TableName(("db",), "a"), TableName(("db",), "b")


def at_once(*acts: Callable[[], object]) -> list[object]:
    """Run them together; what each returned, or the catalog's refusal."""
    together = Barrier(len(acts))

    def run(act: Callable[[], object]) -> object:
        together.wait()
        try:
            return act()
        except CatalogError as error:
            return error

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))


def find(lake: Lake, name: TableName) -> Relation | None:
    with lake.services.database.reading() as uow:
        return uow.relations.find(LAKE, name)


def test_of_two_undrops_one_brings_it_back(lake: Lake) -> None:
    for _ in range(ROUNDS):
        lake.create()
        entry = lake.services.tables.drop(LAKE, PLAIN)
        at_once(
            lambda: lake.services.undrops.undrop(LAKE, entry.id, to=A),  # noqa: B023
            lambda: lake.services.undrops.undrop(LAKE, entry.id, to=B),  # noqa: B023
        )
        back = [name for name in (A, B) if find(lake, name) is not None]
        assert len(back) == 1
        assert listed(lake) == []
        lake.services.purges.purge(LAKE, lake.services.tables.drop(LAKE, back[0]).id, keep_files=True)


def test_an_undrop_and_a_create_of_the_same_name_leave_one_table_and_lose_none(lake: Lake) -> None:
    for _ in range(ROUNDS):
        lake.create()
        old = lake.services.tables.drop(LAKE, PLAIN).id
        at_once(lambda: lake.services.undrops.undrop(LAKE, old), lambda: lake.create())  # noqa: B023, PLW0108
        live = find(lake, PLAIN)
        assert live is not None
        assert (live.id == old) != (old in [entry.id for entry in listed(lake)])
        for entry in (*listed(lake), lake.services.tables.drop(LAKE, PLAIN)):
            lake.services.purges.purge(LAKE, entry.id, keep_files=True)


def test_an_undrop_and_a_purge_end_with_all_files_or_with_none(lake: Lake) -> None:
    for _ in range(ROUNDS):
        lake.create()
        append_files(lake)
        location = lake.metadata(PLAIN)["location"]
        before, entry = files_below(location), lake.services.tables.drop(LAKE, PLAIN)
        at_once(
            lambda: lake.services.undrops.undrop(LAKE, entry.id),  # noqa: B023
            lambda: lake.services.purges.purge(LAKE, entry.id),  # noqa: B023
            lake.services.purges.activate,
        )
        purge_all(lake)
        came_back = find(lake, PLAIN) is not None
        assert files_below(location) == (before if came_back else set())
        if came_back:
            lake.services.purges.purge(LAKE, lake.services.tables.drop(LAKE, PLAIN).id, keep_files=True)


def test_what_was_committed_before_a_drop_is_there_after_the_undrop(lake: Lake) -> None:
    """A commit that lands between the drop's look at the table and its end must not be lost with it."""
    lake.create()
    committed: list[int] = []
    for _ in range(ROUNDS):

        def commits() -> None:
            with suppress(CatalogError):
                committed.extend(lake.append(PLAIN) for _ in range(20))

        at_once(commits, commits, lambda: lake.services.tables.drop(LAKE, PLAIN))
        lake.services.undrops._bring_back(listed(lake)[0], listed(lake), None, dry_run=False)
        assert set(committed) == {snapshot["snapshot-id"] for snapshot in lake.metadata(PLAIN).get("snapshots", ())}


def test_what_was_committed_to_a_store_before_a_drop_is_there_after_the_undrop(lake: Lake) -> None:
    lake.create_keyed()
    committed: list[int] = []
    for _ in range(ROUNDS):

        def commits() -> None:
            with suppress(CatalogError):
                committed.extend(lake.append(CHANGE) for _ in range(20))

        at_once(commits, commits, lambda: lake.services.drop(LAKE, ORDERS))
        lake.services.undrops._bring_back(listed(lake)[0], listed(lake), None, dry_run=False)
        assert set(committed) == {snapshot["snapshot-id"] for snapshot in lake.metadata(CHANGE).get("snapshots", ())}
        assert lake.keyed().pending_commits == len(committed)


def test_of_two_drops_one_drops(lake: Lake) -> None:
    for _ in range(ROUNDS):
        lake.create()
        ended = at_once(*(lambda: lake.services.tables.drop(LAKE, PLAIN) for _ in range(2)))
        assert sum(isinstance(outcome, CatalogError) for outcome in ended) == 1
        assert len(listed(lake)) == 1
        lake.services.purges.purge(LAKE, listed(lake)[0].id, keep_files=True)


def test_a_table_renamed_while_it_is_dropped_is_either_dropped_or_renamed(lake: Lake) -> None:
    for _ in range(ROUNDS):
        lake.create()
        at_once(lambda: lake.services.tables.drop(LAKE, PLAIN), lambda: lake.services.tables.rename(LAKE, PLAIN, A))
        live = find(lake, A)
        assert (live is None) == (len(listed(lake)) == 1)
        if live is not None:
            lake.services.tables.drop(LAKE, A)
        lake.services.purges.purge(LAKE, listed(lake)[0].id, keep_files=True)


def test_a_namespace_dropped_with_everything_takes_what_is_being_added_or_is_refused(lake: Lake) -> None:
    name = TableName(("n",), "t")
    for _ in range(ROUNDS):
        lake.services.namespaces.ensure(LAKE, ("n",))
        at_once(lambda: lake.services.recursive_drops.drop(LAKE, ("n",)), lambda: lake.create(name))
        exists = lake.services.namespaces.exists(LAKE, ("n",))
        assert (find(lake, name) is not None) <= exists
        if exists:
            lake.services.recursive_drops.drop(LAKE, ("n",))
        for entry in listed(lake):
            if entry.parent_id is None:  # the others end with the namespace that they were dropped with
                lake.services.purges.purge(LAKE, entry.id, keep_files=True)
        assert listed(lake) == []
