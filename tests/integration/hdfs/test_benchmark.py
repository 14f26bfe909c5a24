"""The benchmark of HDFS runs, at a size at which its seconds mean nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench import running
from bench.hdfs import __main__ as hdfs
from bench.hdfs.stage import Sides
from tests.integration.hdfs.mini_cluster import shared_cluster
from tests.spark_fixtures import server_process

pytestmark = pytest.mark.timeout(600)


@contextmanager
def forked_server(data_dir: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """In place of `bench.running.start_server`."""
    with server_process(data_dir, **running.QUIET, **environment) as server:
        yield server.url, server.process.pid


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The results of each part, on the HDFS of all tests."""
    out = tmp_path_factory.mktemp("results")
    sizes = ["--files", "8", "--partitions", "4", "--put", "2", "--commits", "3", "--rounds", "1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "start_server", forked_server)
        patch.setattr(hdfs, "start_sides", lambda _ends, scratch: Sides(shared_cluster(), scratch))
        assert hdfs.main([*sizes, "--out", str(out)]) == 0
    return {path.stem: json.loads(path.read_text(encoding="utf-8"))["lines"] for path in out.iterdir()}


def test_directories_are_listed_and_footers_are_read(lines: dict[str, list[dict[str, Any]]]) -> None:
    for part, measures in (("hdfs-listing", ["listing", "times"]), ("hdfs-footers", ["footers"])):
        events = {line["event"]: line for line in lines[part]}
        for measure in measures:
            assert {"local", "hdfs", "webhdfs"} <= events[measure].keys()
            assert events[f"{measure} on HDFS"]["times_webhdfs"]["wall"] > 0
    calls = {line["event"]: line["calls"] for line in lines["hdfs-listing"] if "calls" in line}
    assert calls == {"calls of listing": {"GetFileInfo": 4, "GetListing": 4}, "calls of times": {"GetFileInfo": 4}}


def test_commits_upgrades_and_syncs_are_made_on_both(lines: dict[str, list[dict[str, Any]]]) -> None:
    assert [line["event"] for line in lines["hdfs-commit"]] == ["local", "hdfs", "commit"]
    events = {line["event"]: line for line in lines["hdfs-hive"]}
    assert events["upgrades"]["times_local"]["wall"] > 0
    assert events["calls of a sync"]["calls"] == {"GetFileInfo": 4}
    assert events["new files"]["hdfs"]["wall_s"] > 0
