"""A purge deletes what is the dropped table's own, all of it, whatever kills it; and nothing of anybody else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count

import pytest

from catalog.errors import Conflict, LocationRefused, NotFound
from catalog.names import TableName
from firn.protocol.dropped import DroppedState
from server.service.drop.purge import PurgeStatus
from server.service.locations.ownership import SHARED
from server.service.tables.tables import TableDefinition
from tests.factories import LAKE
from tests.server.faults import Killed
from tests.server.lake import CHANGE, COLUMNS, ORDERS, PLAIN, Lake, altered, set_property
from tests.server.older_tables import before_the_location_rule
from tests.server.service.dropping import (
    Fuse,
    age,
    append_files,
    dying_purges,
    files_below,
    keep,
    listed,
    path_of,
    purge_all,
    unlisted,
)
from tests.server.service.sharing import (
    OTHER,
    a_dropped_table_that_can_come_back,
    a_hive_table,
    a_partition_of_a_linked_hive_table,
    a_percent_encoded_spelling,
    a_table_around_it,
    a_table_nested_in_it,
    an_operation_under_way,
    filled,
    registered_after_it_moved,
    registered_by_another_spelling,
    registered_elsewhere_without_a_manifest_list,
    registered_twice,
    registered_twice_and_moved,
)


def dropped(lake: Lake, name: TableName = PLAIN, *, purge: bool = True) -> None:
    """Dropped, and kept no longer."""
    age(lake, lake.services.drop(LAKE, name, purge=purge).id)


def test_without_a_wish_to_purge_the_table_is_forgotten_and_its_files_stay(lake: Lake) -> None:
    location = filled(lake)
    before = files_below(location)
    dropped(lake, purge=False)
    purge_all(lake)
    assert listed(lake) == []
    assert files_below(location) == before


def test_a_purge_waits_for_the_retention_and_then_leaves_no_file(lake: Lake) -> None:
    location, other = filled(lake), filled(lake, OTHER)
    beside = files_below(other)
    entry = lake.services.drop(LAKE, PLAIN, purge=True)
    purge_all(lake)
    assert files_below(location)
    age(lake, entry.id)
    purge_all(lake)
    assert (files_below(location), files_below(other), listed(lake)) == (set(), beside, [])
    with lake.services.database.reading() as uow:
        last = uow.events.list(LAKE, None, limit=1).items[0]
        assert (last.operation, last.summary) == ("purge", {"deleted-files": "11", "kept-files": "0"})
        assert uow.stats.get_many([last.relation_id]) == {}


def test_a_catalog_that_keeps_nothing_purges_at_once(lake: Lake) -> None:
    keep(lake, "0")
    location = filled(lake)
    lake.services.drop(LAKE, PLAIN, purge=True)
    purge_all(lake)
    assert files_below(location) == set()


def test_both_stores_of_a_keyed_table_go(lake: Lake) -> None:
    lake.create_keyed()
    append_files(lake, CHANGE)
    location = lake.metadata(CHANGE)["location"].rsplit("/", 1)[0]
    assert path_of(location).is_dir()
    dropped(lake, ORDERS)
    purge_all(lake)
    assert not path_of(location).exists()


def test_files_of_a_v1_table_whose_snapshots_have_no_manifest_list_go_too(lake: Lake) -> None:
    location = filled(lake)
    old = unlisted(lake)
    lake.services.tables.register(LAKE, PLAIN, lake.services.metadata.write(location, 99, old), overwrite=True)
    data = {path for path in files_below(location) if path.suffix == ".parquet"}
    dropped(lake)
    purge_all(lake)
    assert len(data) == 4
    assert not [path for path in data if path.exists()]
    left = {path for path in files_below(location) if not path.name.endswith(".metadata.json")}
    assert left == set()


def test_empty_directories_go_and_those_with_a_file_stay(lake: Lake) -> None:
    location = filled(lake)
    empty, held = path_of(location) / "data" / "p=1", path_of(location) / "data" / "p=2"
    for directory in (empty, held):
        directory.mkdir(parents=True)
    (held / "of-nobody.parquet").write_bytes(b"x")
    elsewhere = append_files(lake, at=(lake.warehouse / "imported").as_uri())
    (lake.warehouse / "imported" / "empty").mkdir()
    dropped(lake)
    purge_all(lake)
    assert [path.name for path in sorted(path_of(location).rglob("*"))] == ["data", "p=2", "of-nobody.parquet"]
    assert (lake.warehouse / "imported" / "empty").is_dir()
    assert all(path.exists() for path in elsewhere)


def test_files_outside_of_the_location_stay(lake: Lake) -> None:
    location = filled(lake)
    elsewhere = append_files(lake, at=(lake.warehouse / "imported").as_uri())
    beside = append_files(lake, at=f"{location}-sibling")
    dropped(lake)
    purge_all(lake)
    assert all(path.exists() for path in (*elsewhere, *beside))
    assert files_below(location) == set()


def a_property_that_says_so(lake: Lake, location: str) -> None:
    lake.commit(altered(PLAIN, set_property("gc.enabled", "false")))


@pytest.mark.parametrize(
    ("needs_them", "reason"),
    [
        (registered_twice, SHARED),
        (registered_by_another_spelling, SHARED),
        (registered_twice_and_moved, SHARED),
        (registered_after_it_moved, SHARED),
        (registered_elsewhere_without_a_manifest_list, SHARED),
        (a_table_nested_in_it, SHARED),
        (a_table_around_it, SHARED),
        (a_dropped_table_that_can_come_back, SHARED),
        (a_partition_of_a_linked_hive_table, SHARED),
        (a_percent_encoded_spelling, SHARED),
        (an_operation_under_way, SHARED),
        (a_hive_table, SHARED),
        (a_property_that_says_so, "gc.enabled=false"),
    ],
)
def test_files_that_somebody_may_need_stay(lake: Lake, needs_them: Callable[[Lake, str], None], reason: str) -> None:
    location = filled(lake)
    needs_them(lake, location)
    before = files_below(location)
    entry = lake.services.drop(LAKE, PLAIN, purge=True)
    with pytest.raises(Conflict, match=reason):
        lake.services.purges.purge(LAKE, entry.id)
    age(lake, entry.id)
    purge_all(lake)
    assert files_below(location) == before
    assert listed(lake, PLAIN) == []
    with lake.services.database.reading() as uow:
        assert reason in uow.events.list(LAKE, [entry.id], limit=1).items[0].summary["files"]  # type: ignore[list-item]


def test_files_of_a_table_made_anew_at_the_same_place_stay(lake: Lake) -> None:
    location = filled(lake)
    entry = lake.services.drop(LAKE, PLAIN, purge=True)
    with before_the_location_rule():
        lake.services.tables.create(LAKE, TableDefinition(name=PLAIN, schema=COLUMNS, location=location))
    append_files(lake)
    before = files_below(location)
    age(lake, entry.id)
    purge_all(lake)
    assert files_below(location) == before


def test_files_outside_of_the_warehouse_stay(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> None:
    with before_the_location_rule():
        location = filled(lake, location=tmp_path_factory.mktemp("elsewhere").as_uri() + "/t")
    before = files_below(location)
    entry = lake.services.drop(LAKE, PLAIN, purge=True)
    with pytest.raises(Conflict, match="not inside the catalog's warehouse"):
        lake.services.purges.purge(LAKE, entry.id)
    age(lake, entry.id)
    purge_all(lake)
    assert files_below(location) == before


def test_once_a_purge_has_begun_nothing_is_brought_back_or_put_there(lake: Lake) -> None:
    location = filled(lake)
    metadata_location = lake.services.tables.load(LAKE, PLAIN).metadata_location or ""
    entry = lake.services.drop(LAKE, PLAIN)
    lake.services.purges.purge(LAKE, entry.id)
    assert listed(lake)[0].state is DroppedState.PURGING
    with pytest.raises(Conflict, match="being deleted"):
        lake.services.undrops.undrop(LAKE, entry.id)
    with pytest.raises(LocationRefused, match="in another table's directory"):
        lake.services.tables.register(LAKE, OTHER, metadata_location)
    with pytest.raises(LocationRefused, match="files of another table lie in or around it"):
        lake.services.tables.create(LAKE, TableDefinition(name=OTHER, schema=COLUMNS, location=f"{location}/x"))
    purge_all(lake)
    with pytest.raises(NotFound):
        lake.services.undrops.undrop(LAKE, entry.id)


def test_a_table_dropped_again_is_not_ended_by_those_who_saw_the_drop_before(lake: Lake) -> None:
    """Under one id a table may be brought back and dropped anew, with all of its time before it."""
    location = filled(lake)
    seen = lake.services.drop(LAKE, PLAIN, purge=True)
    lake.services.undrops.undrop(LAKE, seen.id)
    append_files(lake)
    before = files_below(location)
    again = lake.services.drop(LAKE, PLAIN, purge=True)
    lake.services.purges._end(seen, PurgeStatus())
    with lake.services.database.writing() as uow:
        assert uow.dropped.take_back(seen) is None
        assert not uow.dropped.delete(seen)
    purge_all(lake)
    assert (files_below(location), [entry.id for entry in listed(lake)]) == (before, [again.id])


def test_a_purge_that_is_stopped_leaves_the_rest(lake: Lake) -> None:
    location = filled(lake)
    entry = lake.services.drop(LAKE, PLAIN)
    lake.services.purges.purge(LAKE, entry.id)
    lake.services.purges.purge(LAKE, entry.id, keep_files=True)
    purge_all(lake)
    assert files_below(location)
    assert listed(lake) == []


def test_storage_that_fails_is_tried_again_and_holds_up_no_other(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    location, other = filled(lake), filled(lake, OTHER)
    manifest = min(path for path in files_below(location) if path.name.endswith("-m0.avro"))
    whole = manifest.read_bytes()
    manifest.write_bytes(b"no Avro")
    dropped(lake)
    dropped(lake, OTHER)
    status = lake.services.purges.activate()
    assert (status.purged, status.failed) == (1, 1)
    assert files_below(other) == set()
    assert "damaged" in (listed(lake)[0].error or "")
    manifest.write_bytes(whole)
    purge_all(lake)
    assert files_below(location) == set()


def test_a_table_whose_files_are_gone_already_is_forgotten(lake: Lake) -> None:
    location = filled(lake)
    entry = lake.services.drop(LAKE, PLAIN, purge=True)
    for path in files_below(location):
        path.unlink()
    age(lake, entry.id)
    dying_purges(lake, Fuse(-1)).activate()
    assert listed(lake) == []


def test_a_large_purge_goes_on_where_the_run_before_has_stopped(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.service.drop.purge.FILES_PER_RUN", 2)
    monkeypatch.setattr("server.service.drop.purge.BATCH", 1)
    location = filled(lake)
    dropped(lake)
    seen = [len(files_below(location))]
    while listed(lake):
        lake.services.purges.activate()
        seen.append(len(files_below(location)))
    assert seen == [11, 9, 7, 5, 3, 1, 0]


def test_killed_at_any_step_the_next_start_ends_the_purge_and_touches_nothing_else(lake: Lake) -> None:
    other = filled(lake, OTHER)
    beside = files_below(other)
    for step in count(1):
        name = TableName(("db",), f"t{step}")
        location = filled(lake, name)
        dropped(lake, name)
        fuse = Fuse(step)
        with suppress(Killed):
            dying_purges(lake, fuse).activate()
        killed = fuse.left == 0
        for entry in listed(lake):
            assert entry.state is DroppedState.PURGING or files_below(location)
        purges = dying_purges(lake, Fuse(-1))
        purges.activate()
        purges.activate()
        assert (files_below(location), files_below(other), listed(lake)) == (set(), beside, [])
        if not killed:
            break
    assert step > 25


def test_two_servers_that_purge_at_once_do_no_harm(lake: Lake) -> None:
    location = filled(lake)
    dropped(lake)
    first = dying_purges(lake, Fuse(12))
    with suppress(Killed):
        first.activate()
    stale = listed(lake)[0]
    purge_all(lake)
    again = lake.services.purges._resume(replace(stale), lake.services.purges.activate())
    assert again.failed == 0
    assert files_below(location) == set()
