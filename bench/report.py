"""Results: a line of JSON as each is known, and all of them with the machine in one file at the end."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from firn.embedded.process import require_java
from firn.spark.jars import ICEBERG_RUNTIME

RESULTS = Path(__file__).parent / "results"
_LIBRARIES = ("pyspark", "pyiceberg", "pyarrow")


class Report:
    """The results of one run of one benchmark. Prints each line at once; `save` writes the file."""

    def __init__(self, benchmark: str, **sizes: object) -> None:
        """`sizes` are what the run was asked to do."""
        self._facts = {"benchmark": benchmark, "sizes": sizes, "machine": machine()}
        self._started = _now()
        self._load = [os.getloadavg()[0]]
        self.lines: list[dict[str, Any]] = []
        print(json.dumps({"event": "start", "at": self._started, **self._facts}), flush=True)

    def line(self, event: str, **fields: object) -> None:
        """One result."""
        self._load.append(os.getloadavg()[0])
        self.lines.append({"event": event, **fields})
        print(json.dumps(self.lines[-1]), flush=True)

    def save(self, directory: Path | None) -> None:
        """Write what was measured to `<directory>/<benchmark>.json`; nothing without a directory."""
        load = {"least": round(min(self._load), 1), "most": round(max(self._load), 1)}
        print(json.dumps({"event": "end", "at": _now(), "load_1min": load}), flush=True)
        if directory is None:
            return
        directory.mkdir(parents=True, exist_ok=True)
        text = ",\n".join(f"    {json.dumps(line)}" for line in self.lines)
        facts = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in self._facts.items())
        times = f'  "started": "{self._started}",\n  "ended": "{_now()}",\n  "load_1min": {json.dumps(load)},\n'
        path = directory / f"{self._facts['benchmark']}.json"
        path.write_text(f'{{\n{facts}{times}  "lines": [\n{text}\n  ]\n}}\n', encoding="utf-8")


def machine() -> dict[str, object]:
    """What the numbers depend on, as far as the machine tells."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpus": os.cpu_count(),
        "cpu": _cpu_model(),
        "memory_gib": round(memory / 2**30, 1),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "java": require_java().version,
        "iceberg": ICEBERG_RUNTIME[2],
        **{library: version(library) for library in _LIBRARIES},
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
