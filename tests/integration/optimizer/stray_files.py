"""Files that no snapshot names."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from tests.keyed_tables import KeyedTable
from tests.spark_fixtures import RunningServer

OLD = time.time() - 10 * 86_400


def location_of(server: RunningServer, table: KeyedTable, store: str) -> Path:
    stores: dict[str, Any] = server.get(f"catalogs/lake/tables/{table.short}")["stores"]
    return Path(stores[store]["location"].removeprefix("file://"))


def age(directory: Path) -> set[Path]:
    """Let every file have been written long ago; the files that readers see."""
    files = {path for path in directory.rglob("*") if path.is_file()}
    for path in files:
        os.utime(path, (OLD, OLD))
    return {path for path in files if not path.name.startswith(".")}


def stray(directory: Path, name: str) -> Path:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(f"rows of {name}".encode())
    os.utime(path, (OLD, OLD))
    return path
