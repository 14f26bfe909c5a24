"""Clients on a network that loses answers, while another writer commits: what was acknowledged is there, and once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ServerError
from pyiceberg.table import Table
from requests import ConnectionError as NoAnswer

from tests.integration.engines.lake import Lake
from tests.integration.engines.spark import Refused
from tests.integration.engines.unreliable import FATES, Network, unreliable
from tests.spark_fixtures import ServerProcess

pytestmark = pytest.mark.timeout(600)

APPENDS = 12
UPDATES = 4
PAUSE_SECONDS = 1.0
"""Of the other writer: without one it would win every race, and its table would be all that takes time."""
SCHEMA = pa.schema([("id", pa.int64()), ("writer", pa.string()), ("n", pa.int64())])
_numbers = count(1)


@dataclass
class Heard:
    """What a writer was told of each of its writes, by their numbers."""

    done: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)

    def check(self, ids: list[int]) -> None:
        """What is in the table is what the writer was told."""
        assert len(ids) == len(set(ids)), "a row is there twice"
        assert self.done <= set(ids), "an acknowledged row is lost"
        assert not self.refused & set(ids), "a refused row is there"
        assert set(ids) <= self.done | self.unknown


def row(id_: int, writer: str) -> pa.Table:
    return pa.table({"id": [id_], "writer": [writer], "n": [0]}, SCHEMA)


@contextmanager
def another_writer(server: ServerProcess, name: str) -> Iterator[Heard]:
    """Appends all the while, over a network that works, and tries again when it is refused."""
    heard, stop, failed = Heard(), threading.Event(), list[Exception]()
    table = opened(server.url, name)

    def write() -> None:
        for id_ in count():
            if stop.wait(PAUSE_SECONDS):
                return
            try:
                table.append(row(id_, "other"))
                heard.done.add(id_)
            except CommitFailedException:
                heard.refused.add(id_)
                table.refresh()
            except Exception as error:  # noqa: BLE001 -- told where it is looked for
                failed.append(error)
                return

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield heard
    finally:
        stop.set()
        thread.join()
    assert failed == []


def opened(url: str, name: str) -> Table:
    return load_catalog("lake", type="rest", uri=f"{url}/iceberg", warehouse="lake").load_table(name)


def rows_of(table: Table, writer: str) -> list[int]:
    ids: list[int] = table.refresh().scan(row_filter=f"writer == '{writer}'").to_arrow()["id"].to_pylist()
    return ids


def seen_all(network: Network) -> bool:
    return set(network.met) == {fate.__name__ for fate in FATES}


def test_pyiceberg_is_never_told_what_is_not_so(server: ServerProcess) -> None:
    space = f"net{next(_numbers)}"
    catalog = load_catalog("lake", type="rest", uri=f"{server.url}/iceberg", warehouse="lake")
    catalog.create_namespace(space)
    catalog.create_table((space, "t"), SCHEMA)
    heard = Heard()
    with unreliable(server.url, space, "t") as (url, network), another_writer(server, f"{space}.t") as other:
        for id_ in range(APPENDS):
            table = opened(url, f"{space}.t")
            try:
                table.append(row(id_, "unlucky"))
                heard.done.add(id_)
            except CommitFailedException:
                heard.refused.add(id_)
            except (CommitStateUnknownException, NoAnswer, ServerError):
                heard.unknown.add(id_)
        network.settle()
    table = opened(server.url, f"{space}.t")
    heard.check(rows_of(table, "unlucky"))
    other.check(rows_of(table, "other"))
    assert seen_all(network)
    assert heard.done
    assert other.done


def record_answer(heard: Heard, id_: int, lake: Lake, statement: str) -> None:
    """Run a statement and take down what Spark says of it: done, refused, or that it does not know."""
    try:
        lake.sql(statement)
        heard.done.add(id_)
    except Refused as refused:
        if "CommitStateUnknown" in str(refused):
            heard.unknown.add(id_)
        elif "CommitFailedException" in str(refused):
            heard.refused.add(id_)
        else:
            raise


@pytest.mark.spark
def test_spark_is_never_told_what_is_not_so(lake: Lake) -> None:
    lake.sql(
        f"CREATE TABLE {lake}.t (id BIGINT, writer STRING, n BIGINT) PARTITIONED BY (writer) "
        "TBLPROPERTIES ('format-version' = '2', 'write.update.mode' = 'merge-on-read', "
        "'commit.retry.min-wait-ms' = '10', 'commit.retry.max-wait-ms' = '200')",
        f"INSERT INTO {lake}.t VALUES (0, 'counter', 0)",
    )
    name = f"{lake.namespace}.t"
    appended, updated = Heard(), Heard()
    with unreliable(lake.server.url, lake.namespace, "t") as (url, network), another_writer(lake.server, name) as other:
        there = f"unlucky{next(_numbers)}"
        lake.spark.know(url, there)
        for id_ in range(APPENDS):
            record_answer(appended, id_, lake, f"INSERT INTO {there}.{name} VALUES ({id_}, 'unlucky', 0)")
        for id_ in range(UPDATES):
            record_answer(updated, id_, lake, f"UPDATE {there}.{name} SET n = n + 1 WHERE writer = 'counter'")
        network.settle()
    table = opened(lake.server.url, name)
    appended.check(rows_of(table, "unlucky"))
    other.check(rows_of(table, "other"))
    ((counted,),) = lake.rows(f"SELECT n FROM {lake}.t WHERE writer = 'counter'")
    assert len(updated.done) <= counted <= len(updated.done) + len(updated.unknown)
    assert seen_all(network)
    assert appended.done
    assert updated.done
