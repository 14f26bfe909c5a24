"""Each benchmark runs as its command says, at a size at which its seconds mean nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark_fixtures import interpret_queries

# A benchmark has a Spark of its own, with settings of its own: it cannot take part in the one that all tests share.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
REPOSITORY = Path(__file__).parents[3]
FEW = ("--rows", "1000", "--changes", "100", "--days", "4")
"""As few files as there can be: each write makes one for each day, and each read opens them."""


def results(tmp_path: Path, benchmark: str, *sizes: str, file: str = "") -> list[dict[str, Any]]:
    """Run it; the lines of its file, or of this one."""
    command = [sys.executable, "-m", f"bench.{benchmark}", "--out", str(tmp_path), "--memory", "1g", *sizes]
    environment = {**os.environ, **interpret_queries(tmp_path)}
    done = subprocess.run(command, check=False, cwd=REPOSITORY, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return written(tmp_path, file or benchmark)


def written(tmp_path: Path, file: str) -> list[dict[str, Any]]:
    """The lines of a file of results."""
    lines: list[dict[str, Any]] = json.loads((tmp_path / f"{file}.json").read_text())["lines"]
    return lines


@pytest.mark.hive
def test_hive(tmp_path: Path) -> None:
    """Without what has Spark write tables, which takes minutes on a busy machine: the command itself does that too."""
    sizes = ["--files", "4", "--partitions", "2", "--changed", "1", "--rounds", "1"]
    parts = ["--part", "upgrade", "sync", "--ways", "firn", "pyiceberg"]
    upgrade = results(tmp_path, "hive", *parts, *sizes, file="hive-upgrade")
    per_file = {line["way"]: line["ms_per_file"] for line in upgrade if line["event"] == "way"}
    assert sorted(per_file) == ["firn", "pyiceberg"]
    assert min(per_file.values()) > 0
    sync = {line["event"]: line for line in written(tmp_path, "hive-sync")}
    assert sync["quiet"]["times_listing"]["wall"] > 0
    assert sync["news"]["changed"] == 1


def test_compaction(tmp_path: Path) -> None:
    small_sizes = ["--tables", "1", "--files", "2", "--slots", "1"]
    large_sizes = ["--rows", "1000", "--pieces", "5", "--rounds", "1"]
    lines = results(tmp_path, "compaction", *small_sizes, *large_sizes)
    small = {line["slots"]: line["tables_per_minute"] for line in lines if line["event"] == "small tables"}
    assert small.keys() == {1}
    assert small[1] > 0
    large = {line["way"]: line["packing"]["wall_s"] for line in lines if line["event"] == "large table"}
    assert sorted(large) == ["firn", "rewrite_data_files"]
    assert min(large.values()) > 0


def test_read(tmp_path: Path) -> None:
    sizes = ["--rows", "1000", "--days", "2", "--rounds", "1", "--pending", "10/2"]
    small = ["--large-rows", "2000", "--commits", "5", "--commit-rows", "10", "--tables", "2", "--minutes", "0.02"]
    queries = results(tmp_path, "read", *sizes, *small, "--engines", "spark", "duckdb", file="read-queries")
    reads = {(line["engine"], line["query"]): line["times_base"] for line in queries}
    assert sorted(reads) == [(e, q) for e in ("duckdb", "spark") for q in ("aggregate", "count", "lookup", "scan")]
    assert all(times["base"]["wall"] == 1 for times in reads.values())
    assert min(line["builder"]["wall_s"] for line in written(tmp_path, "read-builds")) > 0
    commits = written(tmp_path, "read-commits")
    assert [line["commits"] for line in commits] == [1, 2, 3, 4, 5]
    assert commits[-1]["merged"]["files"] > commits[0]["merged"]["files"]
    (visible,) = written(tmp_path, "read-visible")
    assert visible["commits"] > 0


def test_cdc(tmp_path: Path) -> None:
    times = ["--minutes", "0.1", "--every", "3", "--pending-age", "3 s"]
    more = ["--optimizer-memory", "700m", "--plot", str(tmp_path / "cdc.svg")]
    lines = results(tmp_path, "cdc", *FEW, *times, *more)
    ways = {line["way"]: line for line in lines if line["event"] == "way"}
    assert ways["with"]["jobs"]["merge"] > 0
    assert ways["without"]["jobs"] == {}
    assert ways["with"]["batches"] > 1
    assert "<svg" in (tmp_path / "cdc.svg").read_text(encoding="utf-8")


def test_merge(tmp_path: Path) -> None:
    lines = results(tmp_path, "merge", *FEW, "--rounds", "1", "--skews", "recent", "--warm-rows", "0")
    ways = {line["way"]: line for line in lines if line["event"] == "way"}
    assert sorted(ways) == ["adopt", "auto", "merge into", "vectors"]
    assert (ways["auto"]["chosen"], ways["vectors"]["chosen"]) == (["adopt"], ["vectors"])
    assert ways["merge into"]["times_by_hand"] == {"wall": 1.0, "cpu": 1.0}
