"""A metastore's log of changes makes syncs begin earlier, and nothing else depends on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

import pytest

from catalog.errors import Invalid
from catalog.hive.notification_log import NotificationBatch
from server.service.hive.notification_listener import (
    LISTED_FOR,
    RARELY,
    NotificationListener,
    NotificationListenerStatus,
)
from server.service.hive.sync_hints import TRIES
from tests.factories import LAKE
from tests.hive_tables import a_hive_table
from tests.server.service.hive.beside_hive import LONG_AGO_NS, BesideHive, HiveFiles, aged
from tests.server.service.hive.synced_tables import upgraded

URI = "thrift://fake:9083"


@dataclass
class Listener:
    """The task, with a clock that stands still, beside the one that syncs what it hints at."""

    beside: BesideHive
    now: float = 1000.0
    pokes: Iterator[int] = field(default_factory=count)
    notification_listener: NotificationListener = field(init=False)

    def __post_init__(self) -> None:
        syncs = self.beside.syncs
        self.notification_listener = NotificationListener(
            self.beside.database, syncs.planner.index, syncs.hints, clock=lambda: self.now, poke=self._poked
        )

    def _poked(self) -> None:
        next(self.pokes)

    def hears(self) -> NotificationListenerStatus:
        return self.notification_listener.activate()

    def stands(self) -> str:
        return self.hears().metastores[URI]

    def synced(self) -> tuple[int, int]:
        """The numbers of tables that a round of syncs checked and changed."""
        status = self.beside.syncs.activate()
        return status.tables_checked, status.changed

    def indexed(self) -> set[str]:
        with self.beside.database.reading() as uow:
            return {table.name for table in uow.hive.list(LAKE, limit=100).items}


@pytest.fixture
def listener(beside: BesideHive) -> Listener:
    beside.metastore.log = []
    return Listener(beside)


def new_partition(table: HiveFiles) -> None:
    table.add("z", 9)


def test_a_table_that_is_named_is_synced_before_its_interval_is_over(listener: Listener) -> None:
    table, other = upgraded(listener.beside), upgraded(listener.beside)
    assert listener.hears().hinted == 0
    new_partition(table)
    assert listener.synced() == (0, 0)
    assert listener.hears().hinted == 1
    assert next(listener.pokes) == 1
    assert listener.synced() == (1, 1)
    assert listener.beside.live(table) == table.files()
    assert listener.beside.live(other) == other.files()
    assert (listener.hears().hinted, listener.synced()) == (0, (1, 0))  # whether that was all
    assert (listener.hears().hinted, listener.synced()) == (0, (0, 0))


def test_what_was_lost_or_comes_twice_changes_nothing(listener: Listener) -> None:
    table = upgraded(listener.beside)
    listener.hears()
    new_partition(table)
    log = listener.beside.metastore.log
    assert log
    log.extend(reversed(log))
    assert listener.hears().hinted == 1
    assert (listener.synced(), listener.synced()) == ((1, 1), (1, 0))
    table.add("x", 5)
    assert (listener.hears().hinted, listener.synced()) == (0, (0, 0))
    listener.beside.sync(table)
    assert listener.beside.live(table) == table.files()


def test_what_a_sync_itself_does_to_hive_is_looked_at_once(listener: Listener) -> None:
    table = upgraded(listener.beside)
    listener.hears()
    listener.beside.metastore.set_table_parameters("db", table.short, {"firn.mark": "1"})
    looked_at = []
    for _ in range(4):
        listener.hears()
        looked_at.append(listener.synced()[0])
    assert looked_at == [1, 0, 0, 0]


def test_a_table_that_waits_is_looked_at_again_and_not_for_ever(listener: Listener) -> None:
    table = upgraded(listener.beside)
    listener.hears()
    young = table.add("z", 9)
    aged(young, 2**62)  # from the future: never old enough
    listener.hears()
    looked_at = [listener.synced()[0] for _ in range(TRIES + 2)]
    assert looked_at == [*[1] * TRIES, 0, 0]
    table.add("w", 10)
    listener.hears()
    assert listener.synced() == (1, 1)
    assert young.as_uri() not in {path.replace("file:/", "file:///") for path in listener.beside.live(table)}
    aged(young, LONG_AGO_NS)
    listener.synced()
    assert listener.beside.live(table) == table.files()


def test_tables_that_come_and_go_are_in_the_index(listener: Listener) -> None:
    metastore = listener.beside.metastore
    metastore.add_table(a_hive_table("db", "a"))
    listener.hears()  # where the log ends
    assert listener.indexed() == set()
    metastore.drop_table("db", "a")
    metastore.add_table(a_hive_table("db", "a"))
    listener.hears()
    assert listener.indexed() == {"a"}
    metastore.add_table(a_hive_table("db", "b"))
    listener.hears()
    assert listener.indexed() == {"a"}  # a metastore that makes one each second is not listed each time
    listener.now += LISTED_FOR
    listener.hears()
    assert listener.indexed() == {"a", "b"}
    metastore.drop_table("db", "a")
    listener.now += LISTED_FOR
    listener.hears()
    assert listener.indexed() == {"b"}


def test_a_table_that_is_renamed_is_missed_at_once_under_its_old_name(listener: Listener) -> None:
    """The log may name it by its new name alone."""
    table = upgraded(listener.beside)
    metastore = listener.beside.metastore
    listener.beside.syncs.planner.index.activate()
    listener.hears()
    hive_table, log = metastore.table("db", table.short), metastore.log
    metastore.log = None
    metastore.drop_table("db", table.short)
    metastore.add_table(replace(hive_table, name="renamed"))
    metastore.log = log
    metastore.set_table_parameters("db", "renamed", {"a": "b"})
    assert listener.hears().hinted == 1
    assert listener.indexed() == {"renamed"}
    assert listener.synced()[0] == 1
    assert "is gone" in listener.beside.syncs.planner.sync_hive_table(LAKE, table.name).message


def test_a_metastore_without_a_log_is_asked_rarely(listener: Listener) -> None:
    metastore = listener.beside.metastore
    metastore.log = None
    table = upgraded(listener.beside)
    assert "keeps no notification log" in listener.stands()
    metastore.log = []
    new_partition(table)
    assert "keeps no notification log" in listener.stands()
    listener.now += RARELY
    assert listener.hears().hinted == 1
    assert "is followed, to entry 1" in listener.stands()


def test_a_metastore_that_does_not_show_its_log_holds_up_nothing(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = upgraded(listener.beside)

    def refuses(after: int | None) -> NotificationBatch | None:
        raise Invalid("only administrators may read it")

    monkeypatch.setattr(listener.beside.metastore, "notices", refuses)
    assert "only administrators" in listener.stands()
    new_partition(table)
    assert listener.beside.sync(table).changed


def test_a_log_that_begins_anew_is_followed_from_there(listener: Listener) -> None:
    table = upgraded(listener.beside)
    for _ in range(3):
        table.add(f"a{_}", 1)
    listener.hears()
    listener.beside.metastore.log = []
    table.add("b", 1)
    assert listener.hears().hinted == 0
    table.add("c", 1)
    assert listener.hears().hinted == 1
