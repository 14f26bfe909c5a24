"""What callers are told when the metastore is away, slow, or loses an answer."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from catalog.errors import CommitUnknown, Invalid, NotFound, Unavailable
from catalog.places import metastore_address
from firn.embedded.metastore import EmbeddedMetastore
from server.metastore import HiveMetastore, MetastoreSettings
from tests.hive_tables import a_hive_table, a_storage
from tests.server.metastore.hive_side import HiveSide


class Wire:
    """A relay before the real metastore that can lose answers and break connections."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.lose_answers_to: bytes | None = None
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            far = socket.create_connection(self._target)
            self._open += [near, far]
            lost = threading.Event()
            threading.Thread(target=self._pump, args=(near, far, lost), kwargs={"forth": True}, daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, lost), kwargs={"forth": False}, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, lost: threading.Event, *, forth: bool) -> None:
        try:
            while data := source.recv(65536):
                if forth and self.lose_answers_to and self.lose_answers_to in data:
                    lost.set()
                if not forth and lost.is_set():
                    break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            hang_up(end)

    def break_connections(self) -> None:
        for end in self._open:
            hang_up(end)
        self._open = []

    def close(self) -> None:
        self._listener.close()
        self.break_connections()


def hang_up(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@pytest.fixture
def wire(metastore_process: EmbeddedMetastore) -> Iterator[Wire]:
    made = Wire(metastore_address(metastore_process.uri))
    yield made
    made.close()


@pytest.fixture
def silent() -> Iterator[str]:
    """Accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"thrift://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def nobody() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"thrift://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def connect() -> Iterator[Callable[..., HiveMetastore]]:
    made: list[HiveMetastore] = []

    def connecting(*uris: str, connections: int = 2, patience: float = 30) -> HiveMetastore:
        settings = MetastoreSettings(
            uris=uris, connections=connections, connect_seconds=patience, read_seconds=patience
        )
        made.append(HiveMetastore(settings))
        return made[-1]

    yield connecting
    for client in made:
        client.close()


Connect = Callable[..., HiveMetastore]


def test_nobody_at_the_address_is_unavailable_for_reads_and_writes(connect: Connect, nobody: str) -> None:
    client = connect(nobody)
    with pytest.raises(Unavailable, match=f"no Hive metastore can be reached: {nobody}") as refused:
        client.databases()
    assert refused.value.hint is not None
    with pytest.raises(Unavailable):
        client.set_table_parameters("db", "t", {"a": "b"})


def test_a_silent_metastore_is_unavailable_after_the_time_out(connect: Connect, silent: str) -> None:
    with pytest.raises(Unavailable, match="did not answer for its databases"):
        connect(silent, patience=0.5).databases()


@pytest.mark.hive
def test_the_next_metastore_answers_when_the_first_is_away(
    connect: Connect, nobody: str, silent: str, wire: Wire
) -> None:
    client = connect(nobody, silent, wire.uri, patience=3)
    assert "default" in client.databases()
    assert "default" in client.databases()
    assert wire.connections == 1  # the one that answered is kept and asked first


@pytest.mark.hive
def test_connections_that_died_while_idle_are_not_noticed(connect: Connect, wire: Wire) -> None:
    client = connect(wire.uri)
    client.databases()
    wire.break_connections()
    assert "default" in client.databases()
    assert wire.connections == 2


@pytest.mark.hive
def test_a_lost_answer_to_a_read_is_unavailable(connect: Connect, wire: Wire) -> None:
    wire.lose_answers_to = b"get_all_databases"
    with pytest.raises(Unavailable):
        connect(wire.uri).databases()


@pytest.mark.hive
def test_a_lost_answer_to_a_write_may_hide_that_it_was_made(
    connect: Connect, wire: Wire, metastore_process: EmbeddedMetastore, tmp_path_factory: pytest.TempPathFactory
) -> None:
    hive = HiveSide(metastore_process.uri, metastore_process.warehouse)
    hive.add_database("lost_write")
    hive.add_table(a_hive_table("lost_write", storage=a_storage(f"file:{tmp_path_factory.mktemp('t')}")))
    wire.lose_answers_to = b"alter_table_with_environment_context"
    client = connect(wire.uri)
    with pytest.raises(CommitUnknown, match=r"to set firn.table on lost_write.orders"):
        client.set_table_parameters("lost_write", "orders", {"firn.table": "x"})
    wire.lose_answers_to = None
    there = client.table("lost_write", "orders")
    assert there.parameters["firn.table"] == "x"
    wire.lose_answers_to = b"alter_table_with_environment_context"
    with pytest.raises(CommitUnknown, match=r"to alter the columns of lost_write.orders"):
        client.alter_columns("lost_write", "orders", there.columns[:1], expected=there.columns, cascade=False)
    wire.lose_answers_to = None
    assert client.table("lost_write", "orders").columns == there.columns[:1]
    hive.close()


@pytest.mark.hive
def test_a_refused_call_keeps_its_connection(connect: Connect, wire: Wire) -> None:
    client = connect(wire.uri)
    for _ in range(3):
        with pytest.raises(NotFound, match=r"has no table default\.nothing"):
            client.table("default", "nothing")
    assert wire.connections == 1


@pytest.mark.hive
def test_more_callers_than_connections_wait_their_turn(connect: Connect, wire: Wire) -> None:
    client = connect(wire.uri, connections=2)
    failures: list[Exception] = []

    def ask() -> None:
        try:
            for _ in range(5):
                client.databases()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test must see it
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert wire.connections <= 2


@pytest.mark.parametrize("uris", ["", "host:9083", "http://h:1", "thrift://", "thrift://h:x", "thrift://a:1,bad"])
def test_addresses_that_make_no_sense_are_refused(uris: str) -> None:
    with pytest.raises(Invalid, match="metastore"):
        MetastoreSettings.parse(uris)


def test_addresses_are_read_as_hive_writes_them() -> None:
    settings = MetastoreSettings.parse("thrift://a:9083, thrift://b")
    assert [metastore_address(uri) for uri in settings.uris] == [("a", 9083), ("b", 9083)]
