"""Polars, Daft and dlt: libraries of Python that use a catalog by PyIceberg, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

INSTALLED = Path(sys.prefix) / "python-engines"


def run_python(program: str, *, directory: Path) -> str:
    """What a program prints that may import these libraries; it fails with what the program says of its end."""
    if not INSTALLED.is_dir():
        pytest.fail("Polars, Daft and dlt are not installed: make engines")
    own = {"HOME": str(directory), "DLT_DATA_DIR": str(directory / "dlt"), "POLARS_ICEBERG_PLANNER": "pyiceberg"}
    quiet = {"RUNTIME__DLTHUB_TELEMETRY": "false", "DO_NOT_TRACK": "true"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(INSTALLED), **own, **quiet},
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
