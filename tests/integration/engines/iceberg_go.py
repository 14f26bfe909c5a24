"""iceberg-go: a library for Go, whose program `iceberg_go/` runs in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

SOURCES = Path(__file__).with_name("iceberg_go")
PROGRAM = Path(sys.prefix) / "iceberg-go" / "program"


def run_go(
    url: str,
    *,
    tables: Sequence[Mapping[str, Any]] = (),
    writes: Sequence[Mapping[str, Any]] = (),
    options: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Write to tables of the catalog `lake`, then read some; `iceberg_go/main.go` has the options and the answer."""
    if not PROGRAM.is_file():
        pytest.fail("iceberg-go is not built: make engines")
    request = {"url": f"{url}/iceberg", "tables": list(tables), "writes": list(writes), **(options or {})}
    sent = json.dumps(request)
    done = subprocess.run([PROGRAM], input=sent, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers
