"""Locks of Hive's own, on the fake and on a real metastore; and what becomes of those that nobody gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import LockState, MetaException
from hmsclient.genthrift.hive_metastore.ttypes import ShowLocksRequest
from thrift.Thrift import TApplicationException
from thrift.transport.TTransport import TTransportException

from catalog.errors import Conflict, Unavailable
from catalog.locations.paths import parse_metastore_address
from catalog.ports.metastore import PartitionLocation, PartitionMove
from firn.embedded.metastore import EmbeddedMetastore
from server.metastore import HiveMetastore, MetastoreSettings
from server.metastore.locks import Locking, LockSettings
from tests.hive_tables import a_hive_partition, a_hive_table, a_storage
from tests.integration.metastore.wire import Wire
from tests.integration.metastore.world import World
from tests.server.metastore.fake import FakeMetastore
from tests.server.metastore.hive_side import HiveSide


def moves(world: World, **to: tuple[str | None, str]) -> list[PartitionMove]:
    return [
        PartitionMove(
            place=PartitionLocation(values=(day,), location=before and world.at(before)),
            location=world.at(after),
            parameters={"numFiles": "1", "totalSize": "9", "numRows": None},
        )
        for day, (before, after) in to.items()
    ]


def partitioned(world: World, *days: str) -> None:
    storage = a_storage(world.at("o"), "id int")
    world.hive.add_table(a_hive_table(world.db, storage=storage, partitioned_by="day string"))
    parameters = {"numRows": "3", "note": "kept", "transient_lastDdlTime": "1700000000"}
    for day in days:
        there = a_storage(world.at(f"o/{day}"), "id int")
        world.hive.add_partition(world.db, "orders", a_hive_partition(day, storage=there, parameters=parameters))


def where(world: World, *days: str) -> list[str]:
    partitions = world.metastore.partitions(world.db, "orders", [f"day={day}" for day in days])
    return [partition.storage.location for partition in sorted(partitions, key=lambda partition: partition.values)]


def test_several_partitions_are_moved_at_once_and_nothing_else_of_them_changes(world: World) -> None:
    partitioned(world, "a", "b", "c")
    before = world.metastore.partitions(world.db, "orders", ["day=a"])[0]
    signals = world.metastore.move_all(world.db, "orders", moves(world, b=("o/b", "n/b"), a=("o/a", "n/a")))
    assert [signal.location for signal in signals] == [world.at("n/b"), world.at("n/a")]  # in the order asked
    assert {signal.ddl_time for signal in signals} == {1700000000}
    assert where(world, "a", "b", "c") == [world.at("n/a"), world.at("n/b"), world.at("o/c")]
    after = world.metastore.partitions(world.db, "orders", ["day=a"])[0]
    kept = {key: value for key, value in before.parameters.items() if key != "numRows"}
    assert after.parameters == kept | {"numFiles": "1", "totalSize": "9"}


def test_one_that_is_not_where_it_was_expected_keeps_all_where_they_are(world: World) -> None:
    partitioned(world, "a", "b")
    for strange in (("o/elsewhere", "n/b"), (None, "n/b")):
        with pytest.raises(Conflict):
            world.metastore.move_all(world.db, "orders", moves(world, a=("o/a", "n/a"), b=strange))
    with pytest.raises(Conflict):
        world.metastore.move_all(world.db, "orders", moves(world, a=("o/a", "n/a"), gone=("o/gone", "n/gone")))
    assert where(world, "a", "b", "gone") == [world.at("o/a"), world.at("o/b")]


def test_several_partitions_are_made_at_once(world: World) -> None:
    partitioned(world)
    signals = world.metastore.move_all(world.db, "orders", moves(world, a=(None, "n/a"), b=(None, "n/b")))
    assert [signal.location for signal in signals] == where(world, "a", "b") == [world.at("n/a"), world.at("n/b")]


def test_what_others_have_locked_is_busy_and_the_rest_is_had(locking_world: World) -> None:
    names = ["day=a", "day=b"]
    with locking_world.metastore.lock(locking_world.db, "orders", names) as lock:
        assert (lock.without, dict(lock.busy)) == (None, {})
        lock.keep()
    with locking_world.hive.others_lock(locking_world.db, "orders", "day=a"):
        with locking_world.metastore.lock(locking_world.db, "orders", names) as lock:
            assert lock.busy.keys() == {"day=a"}
            assert "hive@elsewhere" in lock.busy["day=a"]
            lock.keep()
        with locking_world.metastore.lock(locking_world.db, "orders", names[:1], wait=False) as lock:
            assert lock.busy.keys() == {"day=a"}
        with locking_world.metastore.lock(locking_world.db, "orders", [""]) as lock:
            assert lock.busy.keys() == {""}
        with locking_world.metastore.lock(locking_world.db, "others", [""]) as lock:
            assert not lock.busy
    with (
        locking_world.hive.others_lock(locking_world.db, "orders"),
        locking_world.metastore.lock(locking_world.db, "orders", names) as lock,
    ):
        assert lock.busy.keys() == {*names}
    with locking_world.metastore.lock(locking_world.db, "orders", [""]) as lock:  # nothing of all that is left behind
        assert not lock.busy


def test_the_locks_of_writers_are_listed_without_our_own(locking_world: World) -> None:
    metastore, database = locking_world.metastore, locking_world.db
    assert metastore.lock_holders(database, "orders") == []
    with (
        metastore.lock(database, "orders", ["day=b"]),
        locking_world.hive.others_lock(database, "orders", "day=a"),
    ):
        [holder] = metastore.lock_holders(database, "orders")
        assert (holder.partition, "hive@elsewhere" in holder.holder) == ("day=a", True)
        assert metastore.lock_holders(database, "others") == []
    with locking_world.hive.others_lock(database, "orders"):
        assert [holder.partition for holder in metastore.lock_holders(database, "orders")] == [""]


@pytest.mark.hive
def test_a_lock_keeps_writers_away_and_no_readers(hive_world: World) -> None:
    hive = hive_world.hive
    assert isinstance(hive, HiveSide)
    with hive_world.metastore.lock(hive_world.db, "orders", ["day=a"]):
        for others in (["day=a"], []):
            with hive.others_lock(hive_world.db, "orders", *others) as state:
                assert state == LockState.WAITING
        with hive.others_lock(hive_world.db, "orders", "day=b") as state:
            assert state == LockState.ACQUIRED
        with hive.readers_lock(hive_world.db, "orders") as state:
            assert state == LockState.ACQUIRED
    with hive.readers_lock(hive_world.db, "orders"), hive_world.metastore.lock(hive_world.db, "orders", [""]) as lock:
        assert not lock.busy
    assert locks_of(hive, hive_world.db) == []


def locks_of(hive: HiveSide, database: str) -> list[str]:
    shown = hive.client.show_locks(ShowLocksRequest(dbname=database))
    return [lock.agentInfo for lock in shown.locks if lock.dbname == database]


@pytest.fixture
def wired(metastore_process: EmbeddedMetastore) -> Iterator[Callable[..., tuple[Wire, HiveMetastore]]]:
    """A client whose answers can be lost."""
    connections: list[tuple[Wire, HiveMetastore]] = []

    def wiring(**args: object) -> tuple[Wire, HiveMetastore]:
        wire = Wire(parse_metastore_address(metastore_process.uri))
        locks = LockSettings(**{"wait_seconds": 0.0, **args})  # type: ignore[arg-type]
        connections.append(
            (wire, HiveMetastore(MetastoreSettings(uris=(wire.uri,), read_timeout_seconds=20, locks=locks)))
        )
        return connections[-1]

    yield wiring
    for wire, client in connections:
        client.close()
        wire.close()


Wired = Callable[..., tuple[Wire, HiveMetastore]]


@pytest.mark.hive
@pytest.mark.parametrize("lost", [b"unlock", b"\x04lock"])
def test_a_lock_whose_answer_was_lost_is_in_nobody_s_way(hive_world: World, wired: Wired, lost: bytes) -> None:
    hive, (wire, client) = hive_world.hive, wired()
    assert isinstance(hive, HiveSide)
    wire.lose_answers_to = lost
    if lost == b"unlock":
        with client.lock(hive_world.db, "orders", [""]) as lock:
            assert not lock.busy
    else:
        with pytest.raises(Unavailable, match="did not answer for a lock"), client.lock(hive_world.db, "orders", [""]):
            pass
    wire.lose_answers_to = None
    with client.lock(hive_world.db, "orders", [""]) as lock:  # what it may have left it knows for its own
        assert not lock.busy
    assert locks_of(hive, hive_world.db) == []


@pytest.mark.hive
def test_a_lock_of_a_dead_firn_is_ended_once_it_was_silent_for_long(hive_world: World, wired: Wired) -> None:
    hive = hive_world.hive
    assert isinstance(hive, HiveSide)
    dead = hive_world.metastore.lock(hive_world.db, "orders", ["day=a"])
    dead.__enter__()
    _, patient = wired()
    with patient.lock(hive_world.db, "orders", ["day=a", "day=b"]) as lock:
        assert lock.busy.keys() == {"day=a"}
    _, sure = wired(silent_seconds=-1.0)
    with sure.lock(hive_world.db, "orders", ["day=a"]) as lock:
        assert not lock.busy
    assert locks_of(hive, hive_world.db) == []
    dead.__exit__(None, None, None)  # it was not dead after all: that its lock is gone is no error


@pytest.mark.hive
def test_a_lock_that_was_ended_meanwhile_cannot_be_kept(hive_world: World) -> None:
    hive = hive_world.hive
    assert isinstance(hive, HiveSide)
    with hive_world.metastore.lock(hive_world.db, "orders", [""]) as lock:
        hive.end_locks(hive_world.db)
        with pytest.raises(Unavailable, match="ended a lock"):
            lock.keep()


NOT_THERE = MetaException("Unable to update: Table/View 'NEXT_LOCK_ID' does not exist.\n\tat org.apache.derby")


@pytest.mark.parametrize("error", [NOT_THERE, TApplicationException(TApplicationException.UNKNOWN_METHOD, "no lock")])
def test_without_locks_there_is_none_and_the_metastore_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    requests = answering(monkeypatch, error)
    client = HiveMetastore(MetastoreSettings(uris=("thrift://nobody:1",)))
    for _ in range(3):
        with client.lock("db", "orders", ["day=a"]) as lock:
            assert lock.without is not None
            assert lock.without.startswith("the metastore has no locks: ")
            assert "derby" not in lock.without
            assert "NEXT_LOCK_ID" not in lock.without
            assert "hive.locks=off" in lock.without
            assert not lock.busy
            lock.keep()
    assert len(requests) == 1
    assert len([record for record in caplog.records if "without locks" in record.message]) == 1


def test_where_locks_are_required_nothing_is_free_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, NOT_THERE)
    required = LockSettings(locking=Locking.REQUIRE)
    client = HiveMetastore(MetastoreSettings(uris=("thrift://nobody:1",), locks=required))
    with client.lock("db", "orders", ["day=a", "day=b"]) as lock:
        assert lock.without is not None
        assert lock.busy.keys() == {"day=a", "day=b"}


def test_locks_that_are_off_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = answering(monkeypatch, NOT_THERE)
    client = HiveMetastore(MetastoreSettings(uris=("thrift://nobody:1",), locks=LockSettings(locking=Locking.OFF)))
    with client.lock("db", "orders", [""]) as lock:
        assert (lock.without, dict(lock.busy)) == ("hive.locks is off", {})
    assert requests == []


def test_a_metastore_that_does_not_answer_has_locks_for_all_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = answering(monkeypatch, TTransportException(TTransportException.END_OF_FILE, "gone"))
    client = HiveMetastore(MetastoreSettings(uris=("thrift://nobody:1",)))
    for _ in range(2):
        with pytest.raises(Unavailable), client.lock("db", "orders", [""]):
            pass
    assert len(requests) == 2


def answering(monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[object]:
    """A metastore that answers so to every request for a lock."""
    requests: list[object] = []

    class Answering:
        def lock(self, request: object) -> None:
            requests.append(request)
            raise error

    class Connected:
        uri = "thrift://nobody:1"
        client: Client = Answering()

        def close(self) -> None:
            pass

    monkeypatch.setattr("server.metastore.pool.Pool.connect", lambda _pool: Connected())
    return requests


def test_a_fake_lock_that_was_ended_cannot_be_kept() -> None:
    fake = FakeMetastore()
    with fake.lock("default", "orders", [""]) as lock:
        lock.keep()
        fake.locks.time_out()
        with pytest.raises(Unavailable, match="ended a lock"):
            lock.keep()
