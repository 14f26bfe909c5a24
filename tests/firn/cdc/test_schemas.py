"""The schemas of `firn cdc`: an unknown one is told from a registry, and a connection, that does not answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from firn.cdc.schemas import CdcSchemas
from firn.connections import Connections
from firn.errors import NotFound, Refused, Unavailable
from firn.protocol.answers.logs import LogSchemaOut
from tests.firn.cdc.test_config import GOOD, read

AVRO = GOOD.replace("debezium-json", "debezium-avro").replace("brokers: [localhost:9092]", "connection: main")


@dataclass
class FakeConnections:
    """The schemas of a connection by id; `is_there` says whether the connection is."""

    schemas: dict[int, str]
    is_there: bool = True
    is_up: bool = True
    asked: list[int] = field(default_factory=list)

    def schema(self, name: str, number: int) -> LogSchemaOut:
        assert name == "main"
        self.asked.append(number)
        if not self.is_up:
            raise Unavailable("the schema registry does not answer")
        if number not in self.schemas or not self.is_there:
            raise NotFound("no such schema")
        return LogSchemaOut(id=number, texts=[self.schemas[number]])

    def get(self, name: str) -> Any:
        if not self.is_there:
            raise NotFound(f"no connection {name}")


def open_schemas(tmp_path: Path, connections: FakeConnections) -> CdcSchemas:
    return CdcSchemas(read(tmp_path, AVRO), cast("Connections", connections))


def test_a_schema_is_asked_for_once_and_an_unknown_one_again(tmp_path: Path) -> None:
    connections = FakeConnections({1: "a", 2: "b"})
    schemas = open_schemas(tmp_path, connections)
    assert schemas.load("t", []) == {}
    assert schemas.load("t", [2, 1, 2, 9]) == {1: ["a"], 2: ["b"]}
    assert connections.asked == [1, 2, 9]
    with pytest.raises(Refused, match="topic t has records of schema 9, and the schema registry of connection main"):
        schemas.load("t", [2, 9, 10], stops=True)
    assert connections.asked == [1, 2, 9, 9], "it stops at the first one that is unknown"
    connections.schemas[9] = "c"
    assert schemas.load("t", [9], stops=True) == {9: ["c"]}


@pytest.mark.parametrize("stops", [True, False])
def test_no_answer_is_never_an_unknown_schema(tmp_path: Path, *, stops: bool) -> None:
    connections = FakeConnections({}, is_up=False)
    with pytest.raises(Unavailable):
        open_schemas(tmp_path, connections).load("t", [1], stops=stops)
    with pytest.raises(NotFound, match="no connection main"):
        open_schemas(tmp_path, FakeConnections({1: "a"}, is_there=False)).load("t", [1], stops=stops)


def test_a_topic_with_ids_by_chance_asks_nobody(tmp_path: Path) -> None:
    connections = FakeConnections({})
    with pytest.raises(Refused, match="more than 1,000 schemas"):
        open_schemas(tmp_path, connections).load("t", range(1_001))
    assert connections.asked == []
