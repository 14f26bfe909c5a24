"""Compiles the modules of the tests before several processes import them at once.

`make test` begins with it. In a fresh clone no module is compiled, and pytest rewrites the assertions of each test file
besides. Processes that begin together would all do that: 17 CPU seconds in each of them. Here two processes share the
work, and those of pytest load the results.
"""

from __future__ import annotations

import compileall
import importlib
import os
import sys
from multiprocessing import Process
from pathlib import Path

from _pytest.assertion import rewrite  # private; the lock file decides about its version

TESTS = Path(__file__).parent
FOLDERS = ["catalog", "firn", "migrations", "optimizer", "server", "tests"]
FIRST_IMPORTS = [
    "tests.databases",
    "server.app",
    "firn.cli.__main__",
    "optimizer.worker",
    "hypothesis.stateful",
    "hmsclient",
    "pandas",
    "pyiceberg.catalog.rest",
    "xdist.remote",
    "playwright.sync_api",
    "duckdb",
    "pyspark.sql",
]
"""Modules that import most of what the tests need of other distributions."""


def compile_modules() -> None:
    """Compile Firn's modules and its tests. Errors of syntax are left to the process that imports the module."""
    for path in [*TESTS.rglob("test_*.py"), *TESTS.rglob("conftest.py")]:
        _rewrite(path)
    for folder in FOLDERS:
        compileall.compile_dir(TESTS.parent / folder, quiet=2)


def _rewrite(path: Path) -> None:
    """Do for a test file what pytest's import hook does when it finds no cached module."""
    cached = rewrite.get_cache_dir(path) / (path.stem + rewrite.PYC_TAIL)
    if rewrite._read_pyc(path, cached) is not None:
        return
    try:
        source_hash, code = rewrite._rewrite_test(path, None)  # type: ignore[arg-type]  # without one it uses the defaults
    except SyntaxError:
        return
    cached.parent.mkdir(parents=True, exist_ok=True)
    partial = cached.with_name(f"{cached.name}.{os.getpid()}")  # another run may read the folder now
    with partial.open("wb") as file:
        rewrite._write_pyc_fp(file, source_hash, code)
    partial.replace(cached)


def import_other_distributions() -> None:
    """Python compiles what it imports."""
    for name in FIRST_IMPORTS:
        importlib.import_module(name)


if __name__ == "__main__":
    if sys.dont_write_bytecode:
        sys.exit("PYTHONDONTWRITEBYTECODE is set: nothing would be kept")
    other = Process(target=import_other_distributions)
    other.start()
    compile_modules()
    other.join()
