"""What callers are told when a real metastore goes away or loses an answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from catalog.errors import CommitUnknown, NotFound, Unavailable
from catalog.locations.paths import parse_metastore_address
from firn.embedded.metastore import EmbeddedMetastore
from tests.hive_tables import a_hive_table, a_storage
from tests.integration.metastore.wire import Wire
from tests.server.metastore.addresses import Connect
from tests.server.metastore.hive_side import HiveSide


@pytest.fixture
def wire(metastore_process: EmbeddedMetastore) -> Iterator[Wire]:
    connected_wire = Wire(parse_metastore_address(metastore_process.uri))
    yield connected_wire
    connected_wire.close()


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
