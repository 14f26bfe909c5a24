"""Logs of what `firn up` starts are for its user alone."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from firn.embedded.directory import lock_directory, prepare_directory
from firn.embedded.process import GuardedProcess


@pytest.mark.parametrize("is_there", [False, True])
def test_a_log_is_for_its_owner_alone(tmp_path: Path, *, is_there: bool) -> None:
    log = tmp_path / "server.log"
    if is_there:
        log.write_text("before\n")
        log.chmod(0o644)
    process = GuardedProcess([sys.executable, "-c", "print('said')"], log=log, cwd=tmp_path)
    assert process.wait_for_end(30) == 0
    process.stop()
    assert log.read_text() == ("before\nsaid\n" if is_there else "said\n")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_directory_and_its_lock_are_for_their_owner_alone(tmp_path: Path) -> None:
    prepare_directory(tmp_path / "data", owner="a test's data")
    with lock_directory(tmp_path / "data", owner="A test"):
        modes = [stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "data", tmp_path / "data" / "lock")]
    assert modes == [0o700, 0o600]
