"""Hudi on Spark 3.5, in a process of the Python of `bench.peers`: a streaming query that upserts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from bench.stream.flow import Flow, count_bytes, wait_until_warm
from bench.stream.records import COLUMNS
from firn.embedded.jars import fetch_jar_set

JARS = Path(__file__).with_name("hudi-jars.xml")
CHILD = Path(__file__).with_name("hudi_child.py")
MERGE_ON_READ = {
    # Logs, an index that asks no file, and compaction beside the query: what Hudi's documents advise for streams.
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.index.bucket.engine": "SIMPLE",
}


def run_hudi(scratch: Path, flow: Flow, engine: str) -> None:
    """With its defaults (copy on write), or merge-on-read with a bucket index."""
    python = Path(os.environ.get("PEERSBENCH_VENVS", "~/peersbench-venvs")).expanduser() / "spark-3.5/bin/python"
    if not python.is_file():
        raise FileNotFoundError(f"no Python with PySpark 3.5 at {python}: set PEERSBENCH_VENVS")
    topic = flow.create_topic(engine)
    config = {
        "jars": ",".join(map(str, sorted(fetch_jar_set(JARS).glob("*.jar")))),
        "memory": flow.options.memory,
        "brokers": flow.brokers,
        "topic": topic,
        "columns": COLUMNS,
        "records": flow.records,
        "every": flow.options.every,
        "table": (scratch / "warehouse" / "orders").as_uri(),
        "checkpoint": (scratch / "checkpoint").as_uri(),
        "scratch": str(scratch),
        "options": MERGE_ON_READ if engine.endswith("/bucket") else {},
    }
    with (
        (scratch / "hudi.log").open("wb") as log,
        subprocess.Popen(
            [str(python), str(CHILD), json.dumps(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SPARK"))},
        ) as child,
    ):
        assert child.stdin is not None
        assert child.stdout is not None
        answers, questions = child.stdout, child.stdin
        try:
            _expect(answers, "ready", scratch)
            with flow.producing(topic) as producer:
                wait_until_warm(flow, producer)
                flow.measure(engine, producer, lambda: _expect(answers, "done", scratch))

            def read() -> tuple[int, ...]:
                print("read", file=questions, flush=True)
                return tuple(_expect(answers, "totals", scratch)["totals"])

            for _ in range(2):
                flow.measure_read(engine, read)
        finally:
            child.kill()
    flow.report.line("state", engine=engine, **count_bytes(scratch / "warehouse"))


def _expect(answers: IO[str], event: str, scratch: Path) -> dict[str, Any]:
    """The next event of the child; RuntimeError with the end of its log if it is another one."""
    for line in answers:
        if line.startswith("{"):
            answer: dict[str, Any] = json.loads(line)
            if answer["event"] == event:
                return answer
            break
    end = (scratch / "hudi.log").read_text(encoding="utf-8", errors="replace")[-3000:]
    sys.stderr.write(end)
    raise RuntimeError(f"Hudi did not come to {event!r}")
