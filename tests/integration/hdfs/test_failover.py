"""Commits while an HDFS of two name nodes fails over: each is done, refused or unknown, and none is lost."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    RESTError,
    ServiceUnavailableError,
)

from firn.hdfs.registration import register_file_io
from tests.integration.hdfs.daemons import Daemons, daemons
from tests.integration.hdfs.test_catalog import SCHEMA, rows
from tests.spark_fixtures import ServerProcess, server_process

FAILOVERS = int(os.environ.get("FAILOVERS", "4"))
pytestmark = [
    pytest.mark.model,
    pytest.mark.timeout(3600),
    pytest.mark.skipif("SOAK_SECONDS" not in os.environ, reason="two name nodes are for `make soak`"),
]


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemons]:
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("failover") / "hdfs"
        patch.setenv("HADOOP_CONF_DIR", str(directory / "conf"))
        with daemons(directory, name_nodes=2) as running:
            yield running


@pytest.fixture(scope="module")
def server(hdfs: Daemons, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = {"FIRN_WAREHOUSE": f"{hdfs.uri}/warehouse", "FIRN_HADOOP__CONF_DIR": str(hdfs.conf_dir)}
    with server_process(tmp_path_factory.mktemp("server") / "data", **settings) as running:
        yield running


@dataclass
class Writer:
    """Appends one row after the other, and notes what it was told about each."""

    catalog: Catalog
    done: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    stopping: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        for number in count():
            if self.stopping.is_set():
                return
            try:
                self.catalog.load_table("ha.t").append(rows((number, f"row {number}")))
            except (CommitFailedException, ServiceUnavailableError, OSError):
                self.refused.add(number)
            except (CommitStateUnknownException, RESTError):
                self.unknown.add(number)
            else:
                self.done.add(number)

    @contextmanager
    def writing(self) -> Iterator[None]:
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self.stopping.set()
            thread.join()


def test_no_commit_is_lost_when_name_nodes_fail_over(hdfs: Daemons, server: ServerProcess, tmp_path: Path) -> None:
    register_file_io()
    catalog = load_catalog("lake", type="rest", uri=f"{server.url}/iceberg", warehouse="lake")
    catalog.create_namespace("ha")
    catalog.create_table("ha.t", SCHEMA)
    writer = Writer(catalog)
    with writer.writing():
        for number in range(FAILOVERS):
            time.sleep(4)
            before, after = hdfs.name_nodes[number % 2], hdfs.name_nodes[(number + 1) % 2]
            hdfs.kill(before)
            time.sleep(1)
            hdfs.activate(after)
            hdfs.start(before)
            wait_for_commit(writer)
    read = [row["id"] for row in catalog.load_table("ha.t").scan().to_arrow().to_pylist()]
    assert len(read) == len({*read})
    assert writer.done <= {*read}, f"lost: {writer.done - {*read}}"
    assert {*read} <= writer.done | writer.unknown, f"refused, and there: {writer.refused & {*read}}"
    print(f"\n{len(writer.done)} done, {len(writer.refused)} refused, {len(writer.unknown)} unknown")  # noqa: T201


def wait_for_commit(writer: Writer) -> None:
    """Wait until the new name node has taken a commit."""
    before, give_up = len(writer.done), time.monotonic() + 180
    while len(writer.done) == before:
        assert time.monotonic() < give_up, f"no commit: {writer.refused}"
        time.sleep(0.5)
