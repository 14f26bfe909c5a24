"""Polars, Daft, dlt and chdb: libraries of Python that find tables by PyIceberg, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

INSTALLED = Path(sys.prefix) / "python-engines"


def run_python(program: str, *, directory: Path) -> str:
    """What a program prints that may import these libraries; it fails with what the program says of its end."""
    return _run("-c", program, directory=directory)


def run_file(program: Path, *, directory: Path, input_text: str) -> str:
    """As `run_python`, for a file, with its standard input."""
    return _run(str(program), directory=directory, input_text=input_text)


def _run(*arguments: str, directory: Path, input_text: str = "") -> str:
    if not INSTALLED.is_dir():
        pytest.fail("Polars, Daft, dlt and chdb are not installed: make engines")
    own = {"HOME": str(directory), "DLT_DATA_DIR": str(directory / "dlt"), "POLARS_ICEBERG_PLANNER": "pyiceberg"}
    quiet = {"RUNTIME__DLTHUB_TELEMETRY": "false", "DO_NOT_TRACK": "true"}
    done = subprocess.run(
        [sys.executable, *arguments],
        input=input_text,
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(INSTALLED), **own, **quiet},
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
