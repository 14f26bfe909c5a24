"""Who else than the server's user may read what the server keeps on its disk."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.store.schema import upgrade_schema
from server.store.session import open_engine
from tests.command_line import serving


@pytest.fixture(autouse=True)
def wide_umask() -> Iterator[None]:
    """As on most machines: whoever does not say otherwise makes files that all may read."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(path: Path) -> list[str]:
    return [str(file.relative_to(path.parent)) for file in [path, *path.rglob("*")] if mode_of(file) & 0o077]


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_nobody_else_may_enter_a_data_directory_that_the_server_makes(tmp_path: Path) -> None:
    with serving(tmp_path / "data"):
        assert mode_of(tmp_path / "data") == 0o700
        assert open_to_others(tmp_path / "data") == []
        assert (tmp_path / "data" / "firn.db-wal").exists()


def test_an_older_data_directory_is_warned_of_and_its_database_closed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    (tmp_path / "data" / "firn.db").touch(mode=0o644)
    with serving(tmp_path / "data"):
        assert mode_of(tmp_path / "data" / "firn.db") == 0o600
    log_lines = [json.loads(line) for line in (tmp_path / "data.log").read_text().splitlines() if line.startswith("{")]
    assert [line["mode"] for line in log_lines if "chmod 700" in line["message"]] == ["755"]


def test_the_databases_log_is_as_private_as_the_database(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'firn.db'}")
    upgrade_schema(engine)
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE t (a)")
        files = {file.name: mode_of(file) for file in tmp_path.glob("firn.db*")}
    assert files["firn.db"] == files["firn.db-wal"] == files["firn.db-shm"] == 0o600
    engine.dispose()
