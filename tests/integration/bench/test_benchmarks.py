"""Each benchmark runs, at a size at which its seconds mean nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench import cdc, compaction, merge
from bench.etl.__main__ import main as etl
from bench.hive.__main__ import main as hive
from bench.read.__main__ import main as read
from bench.stream.__main__ import main as stream
from bench.stream.readers import WAYS
from tests.spark_fixtures import interpret_queries

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
REPOSITORY = Path(__file__).parents[3]
FEW = ("--rows", "400", "--changes", "40", "--days", "4")
"""As few files as there can be: each write makes one for each day, and each read opens them."""


def results(main: Callable[[list[str]], int], file: str, tmp_path: Path, *sizes: str) -> list[dict[str, Any]]:
    """Run a benchmark in this process; the lines of a file of results."""
    assert main([*sizes, "--out", str(tmp_path)]) == 0
    return written(tmp_path, file)


def written(tmp_path: Path, file: str) -> list[dict[str, Any]]:
    """The lines of a file of results."""
    lines: list[dict[str, Any]] = json.loads((tmp_path / f"{file}.json").read_text())["lines"]
    return lines


def run_command(*command: str, tmp_path: Path) -> None:
    """Run a program of this Python, whose Sparks interpret their queries."""
    environment = {**os.environ, **interpret_queries(tmp_path)}
    done = subprocess.run(
        [sys.executable, *command], check=False, cwd=REPOSITORY, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.hive
@pytest.mark.usefixtures("shared_parts")
def test_hive(tmp_path: Path) -> None:
    """Without what has Spark write tables, which takes minutes on a busy machine: the command itself does that too."""
    sizes = ["--files", "4", "--partitions", "2", "--changed", "1", "--rounds", "1"]
    parts = ["--part", "upgrade", "sync", "--ways", "firn", "pyiceberg"]
    upgrade = results(hive, "hive-upgrade", tmp_path, *parts, *sizes)
    per_file = {line["way"]: line["ms_per_file"] for line in upgrade if line["event"] == "way"}
    assert sorted(per_file) == ["firn", "pyiceberg"]
    assert min(per_file.values()) > 0
    sync = {line["event"]: line for line in written(tmp_path, "hive-sync")}
    assert sync["quiet"]["times_listing"]["wall"] > 0
    assert sync["news"]["changed"] == 1


def test_small_tables_are_compacted(tmp_path: Path) -> None:
    """As the command says, with a server and an optimizer in processes of their own."""
    sizes = ["--tables", "1", "--warm-tables", "1", "--files", "2", "--slots", "1"]
    command = ["-m", "bench.compaction", "--part", "small", "--memory", "1g", "--out", str(tmp_path)]
    run_command(*command, *sizes, tmp_path=tmp_path)
    (line,) = written(tmp_path, "compaction")
    assert (line["event"], line["slots"]) == ("small tables", 1)
    assert line["tables_per_minute"] > 0
    assert line["cpu_s"] > 0


@pytest.mark.usefixtures("shared_parts")
def test_a_large_table_is_compacted(tmp_path: Path) -> None:
    sizes = ["--part", "large", "--rows", "400", "--pieces", "5", "--rounds", "1"]
    lines = results(compaction.main, "compaction", tmp_path, *sizes)
    large = {line["way"]: line["packing"]["wall_s"] for line in lines if line["event"] == "large table"}
    assert sorted(large) == ["firn", "rewrite_data_files"]
    assert min(large.values()) > 0


def test_a_benchmark_has_a_spark_of_its_own(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys; from bench.running import jvm_pid, running_spark\n"
        "with running_spark(pathlib.Path(sys.argv[1]), memory='600m', settings={'spark.app.note': 'kept'}) as spark:\n"
        "    assert jvm_pid(spark) > 0\n"
        "    assert spark.conf.get('spark.driver.memory') == '600m'\n"
        "    assert spark.conf.get('spark.app.note') == 'kept'\n"
        "assert spark.sparkContext._jsc is None, 'it has not stopped'\n"
    )
    run_command("-c", program, str(tmp_path), tmp_path=tmp_path)


@pytest.mark.usefixtures("shared_parts")
def test_read(tmp_path: Path) -> None:
    sizes = ["--rows", "1200", "--days", "2", "--rounds", "1", "--pending", "10/2", "--engines", "spark", "duckdb"]
    small = ["--large-rows", "800", "--commits", "5", "--commit-rows", "10", "--tables", "2", "--minutes", "0.02"]
    queries = results(read, "read-queries", tmp_path, *sizes, *small)
    reads = {(line["engine"], line["query"]): line["times_base"] for line in queries}
    assert sorted(reads) == [(e, q) for e in ("duckdb", "spark") for q in ("aggregate", "count", "lookup", "scan")]
    assert all(times["base"]["wall"] == 1 for times in reads.values())
    bounds = {line["engine"]: line["times_base"] for line in written(tmp_path, "read-bounds")}
    assert {engine: sorted(times) for engine, times in bounds.items()} == {
        engine: ["5 %", "base", "both", "file", "hidden"] for engine in ("duckdb", "spark")
    }
    assert min(line["builder"]["wall_s"] for line in written(tmp_path, "read-builds")) > 0
    commits = written(tmp_path, "read-commits")
    assert [line["commits"] for line in commits] == [1, 2, 3, 4, 5]
    assert commits[-1]["merged"]["files"] > commits[0]["merged"]["files"]
    (visible,) = written(tmp_path, "read-visible")
    assert visible["commits"] > 0


@pytest.mark.usefixtures("shared_parts")
def test_cdc(tmp_path: Path) -> None:
    times = ["--minutes", "0.04", "--every", "1", "--pending-age", "1 s"]
    lines = results(cdc.main, "cdc", tmp_path, *FEW, *times, "--plot", str(tmp_path / "cdc.svg"))
    ways = {line["way"]: line for line in lines if line["event"] == "way"}
    assert ways["with"]["jobs"]["merge"] > 0
    assert ways["without"]["jobs"] == {}
    assert ways["with"]["batches"] > 1
    assert "<svg" in (tmp_path / "cdc.svg").read_text(encoding="utf-8")


@pytest.mark.usefixtures("shared_parts")
def test_merge(tmp_path: Path) -> None:
    lines = results(merge.main, "merge", tmp_path, *FEW, "--rounds", "1", "--skews", "recent", "--warm-rows", "0")
    ways = {line["way"]: line for line in lines if line["event"] == "way"}
    assert sorted(ways) == ["adopt", "auto", "merge into", "vectors"]
    assert (ways["auto"]["chosen"], ways["vectors"]["chosen"]) == (["adopt"], ["vectors"])
    assert ways["merge into"]["times_by_hand"] == {"wall": 1.0, "cpu": 1.0}


@pytest.mark.usefixtures("shared_parts")
def test_stream(tmp_path: Path) -> None:
    sizes = ["--records", "600", "--keys", "100", "--partitions", "2", "--rounds", "1", "--warm-rounds", "0"]
    lines = results(stream, "stream-drain", tmp_path, *sizes)
    assert lines[-1]["rate_of_parse"]["cpu"] > 0
    ways = {line["way"]: line for line in written(tmp_path, "stream-skew")}
    assert sorted(ways) == ["drain", "iceberg", "upsert"]
    assert ways["upsert"]["files"] <= ways["upsert"]["files_aim"]


@pytest.mark.usefixtures("shared_parts")
def test_a_stream_is_seen_in_each_way(tmp_path: Path) -> None:
    sizes = ["--part", "visible", "--keys", "40", "--rates", "50", "--seconds", "1", "--warm-seconds", "1"]
    lines = results(stream, "stream-visible", tmp_path, *sizes, "--checkpoint", "5 seconds")
    assert [line["way"] for line in lines] == list(WAYS)
    assert min(line["age_ms"]["p50"] for line in lines) > 0


@pytest.mark.usefixtures("shared_parts")
def test_a_read_with_the_log(tmp_path: Path) -> None:
    sizes = ["--part", "hybrid", "--keys", "40", "--pending", "10", "--waiting", "20", "--partitions", "2"]
    lines = results(stream, "stream-hybrid", tmp_path, *sizes, "--rounds", "1", "--warm-rounds", "0")
    times = {line["engine"]: line["times_both"]["wall"] for line in lines if line["event"] == "hybrid"}
    assert sorted(times) == ["arrow", "spark"]
    assert min(times.values()) > 0


@pytest.mark.usefixtures("shared_parts")
def test_a_fleet_of_streams(tmp_path: Path) -> None:
    sizes = ["--part", "fleet", "--tables", "3", "--minutes", "0.04", "--total-rate", "50", "--table-keys", "5"]
    lines = results(stream, "stream-fleet", tmp_path, *sizes, "--fleet-lag", "1 s", "--sample", "1")
    events = {line["event"]: line for line in lines}
    assert (events["running"]["streams"], events["cpu"]["records"]) == (3, 120)
    assert min(events["memory"]["optimizer"].values()) > 0
    assert events["lag"]["lag_ms"]["most"] >= events["lag"]["lag_ms"]["p50"]


@pytest.mark.usefixtures("shared_parts")
@pytest.mark.timeout(1800)  # it starts one more Spark, for Hudi
def test_a_derived_table(tmp_path: Path) -> None:
    """The first round of changes, with two of the ways to keep the table, and with the peers.

    The table of Spark's own pipelines is empty during each refresh.
    """
    sizes = ["--trips", "4000", "--days", "4", "--buckets", "1", "--drivers", "9", "--rounds", "1", "--memory", "1g"]
    systems = ["incremental", "lookback", "hudi", "spark-pipelines"]
    lines = results(etl, "etl", tmp_path, *sizes, "--systems", *systems)
    rounds = {line["system"]: line for line in lines if line["event"] == "round"}
    assert sorted(rounds) == sorted(systems)
    assert rounds["incremental"]["mode"] == "incremental"
    exact = {system: line["completeness"] for system, line in rounds.items() if system != "lookback"}
    assert exact == {"incremental": 1, "hudi": 1, "spark-pipelines": 1}
    assert rounds["incremental"]["keys"] == rounds["hudi"]["keys"] > 0
    assert rounds["hudi"]["jobs"] > 0
    assert "empty_s" in rounds["spark-pipelines"]
