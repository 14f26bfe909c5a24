"""The keyed-table workload of `peersbench`, Firn beside the engines that a user might take instead.

    python -m bench.peers
    python -m bench.peers --engines firn iceberg-dv --rows 50000 --changes 5000 --batches 2 --rounds 1

`peersbench` is not part of this repository: PEERSBENCH names its directory, PEERSBENCH_VENVS that of its virtual
environments for engines that need another PySpark than Firn. It loads the rows, applies batches, reads, compacts and
reads again, and compares every answer with an oracle. Each engine runs in a process of its own, in rounds.

Firn takes part in two ways: `firn` writes with `firn.spark.upsert` and `.delete`, two commits with all their checks;
`firn-append` appends upserts and deletes to the change store in one commit, as SQL does. Compacting is the merge job,
run by the optimizer's own code. CPU seconds of Firn are those of Spark's JVM, of the server, and of the optimizer, the
process that drives Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.report import Report

HOME = Path(os.environ.get("PEERSBENCH", "../shared/tools/peersbench"))
OWN = ("firn", "firn-append")
PEERS = ("iceberg-cow", "iceberg-mor", "iceberg-dv", "delta", "delta-dv", "paimon", "hudi-mor/bucket")
OWN_LINE = "4.1"
LINES = {"paimon": "3.5", "hudi-mor": "3.5", "hudi-cow": "3.5", "paimon-dv": "3.5"}
LIMIT_SECONDS = 900

Summary = dict[str, Any]


def main(argv: list[str] | None = None) -> int:
    """Run it; the exit code is 1 when an engine failed or answered wrongly."""
    options = _arguments(argv)
    if not (HOME / "bench_peers.py").is_file():
        raise FileNotFoundError(f"there is no peersbench at {HOME}: set PEERSBENCH to its directory")
    sizes = {"rows": options.rows, "changes": options.changes, "batches": options.batches, "rounds": options.rounds}
    report = Report("peers", **sizes, skews=options.skews, engines=options.engines)
    failed = False
    for skew in options.skews:
        summaries: dict[str, list[Summary]] = {engine: [] for engine in options.engines}
        for number in range(options.rounds):
            for engine in options.engines:
                summary = _run(engine, skew, options)
                report.line(
                    "run", **{"failed": True} | (summary or {}) | {"skew": skew, "engine": engine, "round": number}
                )
                failed |= summary is None
                summaries[engine] += [summary] if summary is not None else []
        _compare(report, skew, {engine: runs for engine, runs in summaries.items() if runs})
    report.save(options.out)
    return 1 if failed else 0


def _run(engine: str, skew: str, options: argparse.Namespace) -> Summary | None:
    """One engine through the whole workload; None when it failed, with the end of what it said on standard error."""
    name, _, index = engine.partition("/")
    python = _python(LINES.get(name, OWN_LINE))
    script = ["-m", "bench.peers_firn"] if engine in OWN else [str(HOME / "bench_peers.py")]
    command = [python, *script, "--engine", name, "--skew", skew, "--rows", str(options.rows)]
    command += [
        "--batches",
        str(options.batches),
        "--batch-rows",
        str(options.changes),
        "--driver-memory",
        options.memory,
    ]
    command += ["--warmup-rows", str(min(20_000, options.rows)), *(["--hudi-index", index] if index else [])]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        sys.stderr.write(f"{engine} took longer than {LIMIT_SECONDS} s\n")
        return None
    if done.returncode != 0:
        sys.stderr.write(f"{engine}: {done.stderr[-3000:]}\n")
        return None
    summary = next(line for line in _events(done.stdout) if line.pop("event") == "summary")
    return summary | {"failed": False}


def _events(printed: str) -> Iterator[dict[str, Any]]:
    for line in printed.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def _python(line: str) -> str:
    if line == OWN_LINE:
        return sys.executable
    python = Path(os.environ.get("PEERSBENCH_VENVS", "~/peersbench-venvs")).expanduser() / f"spark-{line}/bin/python"
    if not python.is_file():
        raise FileNotFoundError(f"no Python with PySpark {line} at {python}: set PEERSBENCH_VENVS")
    return str(python)


def _compare(report: Report, skew: str, summaries: Mapping[str, Sequence[Summary]]) -> None:
    """Medians of each engine's rounds."""
    for engine, runs in summaries.items():
        written = [sum(run["batch_cpu_s"]) for run in runs]
        compacted = [run["compact_cpu_s"] or 0.0 for run in runs]
        report.line(
            "engine",
            skew=skew,
            engine=engine,
            batch_wall_s=median(run["batch_median_s"] for run in runs),
            batch_cpu_s=round(median(median(run["batch_cpu_s"]) for run in runs), 2),
            scan_before=_read(runs, "read_before"),
            scan_after=_read(runs, "read_after"),
            compact_wall_s=median(run["compact_s"] or 0.0 for run in runs),
            total_cpu_s=round(median(a + b for a, b in zip(written, compacted, strict=True)), 1),
            write_amp=median(run["write_amp_with_compaction"] for run in runs),
        )


def _read(runs: Sequence[Summary], phase: str) -> dict[str, float]:
    return {
        "wall_s": median(run[phase]["scan"] for run in runs),
        "cpu_s": median(run[phase]["scan_cpu"] for run in runs),
    }


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engines", nargs="+", choices=[*OWN, *PEERS], default=[*OWN, *PEERS])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--changes", type=int, default=100_000, help="of one batch (default: %(default)s)")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--skews", nargs="+", choices=["uniform", "recent"], default=["uniform", "recent"])
    parser.add_argument("--memory", default="6g", help="heap of each engine's JVM (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="directory for the file of results (default: none is written)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
