"""Launches as real processes: a recorded spark-submit that runs, dies, hangs and refuses, and is never left behind."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catalog.errors import Unavailable
from catalog.launch.command import Command, LaunchPaths, build_command
from catalog.launch.settings import DeployMode, Launch, LaunchId, LaunchKind
from server.launch import processes
from server.launch.processes import Processes
from tests.waiting import wait_for

SUBMIT = Path(__file__).with_name("recorded_submit.py")
ID = LaunchId("nightly-1")
DIES = Command(arguments=[sys.executable, "-c", "raise SystemExit(7)"], environment={})
YARN = Launch(kind=LaunchKind.SPARK_SUBMIT, master="yarn", conf={"spark.a": "it's $(touch here) `b`; c"})


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Processes]:
    started = Processes(tmp_path / "optimizers", grace_seconds=1)
    yield started
    started.stop_all()


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the recorded spark-submit, which is found on the path, writes what it was given."""
    bin_directory = tmp_path / "bin"
    bin_directory.mkdir()
    program = bin_directory / "spark-submit"
    program.write_text(f"#!{sys.executable}\n{SUBMIT.read_text(encoding='utf-8')}", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_directory}:{os.environ['PATH']}")
    monkeypatch.setenv("FIRN_SECRET", "the database's password")
    return tmp_path / "record"


def a_command(launcher: Processes, record: Path, script: str, launch: Launch = YARN) -> Command:
    place = LaunchPaths(
        server="http://s", python=sys.executable, spark_submit="spark-submit", application="/app.py",
        directory=str(launcher.directory / ID),
    )  # fmt: skip
    launch = replace(launch, environment={"RECORD": str(record), "SCRIPT": script})
    return build_command(launch, group="nightly", launch_id=ID, paths=place, token="firn_t")


def noted(record: Path) -> list[dict[str, Any]]:
    wait_for(lambda: record.exists() and record.read_text(encoding="utf-8").endswith("\n"), "a note")
    return [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]


def status_of(launcher: Processes) -> int | None:
    seen = launcher.inspect(ID)
    assert seen is not None
    return seen.exit_status


def is_alive(pid: int) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] != "Z"


def test_it_is_given_words_and_no_shell_reads_them(launcher: Processes, record: Path) -> None:
    process = launcher.start(ID, a_command(launcher, record, "runs"))
    (recorded,) = noted(record)
    assert recorded["argv"] == [
        *("--master", "yarn", "--deploy-mode", "client", "--name", "firn-optimizer-nightly-nightly-1"),
        *("--driver-memory", "2g", "--properties-file", str(launcher.directory / ID / "spark.conf")),
        *("--load-spark-defaults", "/app.py"),
        *("--server", "http://s", "--group", "nightly", "--slots", "2", "--launch", "nightly-1", "--tied"),
    ]
    assert recorded["properties"].splitlines()[0] == "spark.a=it's\\ $(touch\\ here)\\ `b`;\\ c"
    assert recorded["cwd"] == str(launcher.directory / ID)
    assert recorded["pid"] == process.pid
    assert status_of(launcher) is None
    seen = launcher.inspect(ID)
    assert seen is not None
    assert (seen.resident or 0) > 1_000_000


def test_of_the_servers_own_settings_it_sees_nothing_but_its_token(launcher: Processes, record: Path) -> None:
    launcher.start(ID, a_command(launcher, record, "runs"))
    (recorded,) = noted(record)
    assert {key: value for key, value in recorded["env"].items() if key.startswith("FIRN_")} == {"FIRN_TOKEN": "firn_t"}


def test_what_it_reads_is_readable_by_nobody_else(launcher: Processes, record: Path) -> None:
    cluster = replace(YARN, deploy_mode=DeployMode.CLUSTER)
    command = a_command(launcher, record, "runs", cluster)
    launcher.start(ID, replace(command, environment={"RECORD": str(record), "SCRIPT": "runs"}))
    noted(record)
    path = launcher.directory / ID / "spark.conf"
    assert "FIRN_TOKEN=firn_t" in path.read_text(encoding="utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_one_that_dies_says_how(launcher: Processes, record: Path) -> None:
    launcher.start(ID, a_command(launcher, record, "dies"))
    wait_for(lambda: status_of(launcher) is not None, "its end")
    seen = launcher.inspect(ID)
    assert seen is not None
    assert (seen.exit_status, seen.last_words) == (7, "Exception in thread main: the cluster is full")


def test_a_missing_spark_submit_is_named_with_the_setting(launcher: Processes, record: Path) -> None:
    missing = replace(
        a_command(launcher, record, "runs"), arguments=["/nowhere/spark-submit", "--properties-file", "p"]
    )
    with pytest.raises(Unavailable, match="/nowhere/spark-submit cannot be started: No such file") as refused:
        launcher.start(ID, missing)
    assert refused.value.hint == "set optimizers.spark_submit to a spark-submit"


def test_one_that_dies_takes_what_it_has_started_with_it(launcher: Processes, record: Path) -> None:
    process = launcher.start(ID, a_command(launcher, record, "deaf"))
    note = record.with_name("record.child")
    wait_for(lambda: note.exists() and note.read_text(encoding="utf-8") != "", "its child")
    child = int(note.read_text(encoding="utf-8"))
    os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: status_of(launcher) == -signal.SIGKILL, "its end")
    wait_for(lambda: not is_alive(child), "the end of its child")


def test_a_disk_that_is_full_or_gone_keeps_nobody_from_watching(launcher: Processes, record: Path) -> None:
    process = launcher.start(ID, a_command(launcher, record, "runs"))
    noted(record)
    (launcher.directory / ID / "log").unlink()
    assert status_of(launcher) is None
    os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: status_of(launcher) == -signal.SIGKILL, "its end")
    seen = launcher.inspect(ID)
    assert seen is not None
    assert "cannot be read" in seen.last_words


def test_a_program_that_is_not_there_is_a_refusal(launcher: Processes, record: Path) -> None:
    command = a_command(launcher, record, "runs")
    with pytest.raises(Unavailable, match="nowhere/submit cannot be started: No such file"):
        launcher.start(ID, replace(command, arguments=["/nowhere/submit", *command.arguments[1:]]))
    assert launcher.inspect(ID) is None


def test_the_logs_of_those_that_have_ended_are_kept_up_to_a_number(
    launcher: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "KEPT_LOGS", 2)
    ids = [LaunchId(f"nightly-{number}") for number in range(5)]
    for launch_id in ids:
        launcher.start(launch_id, DIES)
        assert looked_until_it_ends(launcher, launch_id) == 7
        launcher.discard(launch_id)
    assert len(list(launcher.directory.iterdir())) == 3
    assert launcher.inspect(ids[-1]) is None


def test_one_that_runs_is_not_forgotten(launcher: Processes, record: Path) -> None:
    launcher.start(ID, a_command(launcher, record, "runs"))
    launcher.discard(ID)
    assert status_of(launcher) is None


def test_of_many_who_look_at_one_that_has_ended_one_buries_it(
    launcher: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number may be another process's by the time that the second would kill what is left of it."""
    killed: list[int] = []

    def slowly(pid: int) -> None:
        killed.append(pid)
        time.sleep(0.2)

    monkeypatch.setattr(processes, "_kill_session", slowly)
    launcher.start(ID, DIES)
    with ThreadPoolExecutor(4) as pool:
        looks = [pool.submit(looked_until_it_ends, launcher, ID) for _ in range(4)]
    assert [look.result() for look in looks] == [7] * 4
    assert len(killed) == 1


def looked_until_it_ends(launcher: Processes, launch_id: LaunchId) -> int:
    while True:
        seen = launcher.inspect(launch_id)
        assert seen is not None
        if seen.exit_status is not None:
            return seen.exit_status


def test_what_one_has_left_behind_goes_with_the_server(launcher: Processes, record: Path) -> None:
    """Its child lives on in its session, and the server stops before it has looked."""
    process = launcher.start(ID, a_command(launcher, record, "deaf"))
    note = record.with_name("record.child")
    wait_for(lambda: note.exists() and note.read_text(encoding="utf-8") != "", "its child")
    child = int(note.read_text(encoding="utf-8"))
    os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(process.pid), "its end")
    launcher.stop_all()
    wait_for(lambda: not is_alive(child), "the end of its child")


def test_one_that_hangs_is_killed_with_all_that_it_has_started(launcher: Processes, record: Path) -> None:
    process = launcher.start(ID, a_command(launcher, record, "deaf"))
    note = record.with_name("record.child")
    wait_for(lambda: note.exists() and note.read_text(encoding="utf-8") != "", "its child")
    child = int(note.read_text(encoding="utf-8"))
    assert is_alive(child)
    launcher.stop_all()  # asks, waits a second, kills
    wait_for(lambda: not is_alive(child) and not is_alive(process.pid), "the end of both")


def test_a_long_log_is_begun_anew_and_the_old_one_kept(
    launcher: Processes, record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "LOG_BYTES", 20_000)
    launcher.start(ID, a_command(launcher, record, "talks"))
    log, old = launcher.directory / ID / "log", launcher.directory / ID / "log.1"
    wait_for(lambda: log.stat().st_size > 20_000, "a long log")
    launcher.inspect(ID)
    assert old.stat().st_size > 20_000
    kept = old.read_bytes()
    wait_for(lambda: 0 < log.stat().st_size < 15_000 or log.stat().st_size > 2_000, "lines in the new log")
    assert b"\0" not in log.read_bytes()
    assert set(kept) <= {ord("x"), ord("\n")}


def test_a_stray_is_killed_and_a_later_process_of_its_number_is_not(launcher: Processes, record: Path) -> None:
    process = launcher.start(ID, a_command(launcher, record, "runs"))
    noted(record)
    following = Processes(launcher.directory)
    assert not following.kill_stray(replace(process, started=process.started + 1))
    assert not following.kill_stray(replace(process, host="elsewhere"))
    assert is_alive(process.pid)
    assert not following.is_gone(process)
    assert following.kill_stray(process)
    wait_for(lambda: status_of(launcher) == -signal.SIGKILL, "its end")
    assert following.is_gone(process)
    assert not following.is_gone(replace(process, host="elsewhere"))
    assert not following.kill_stray(process)


def test_killing_the_server_ends_what_it_has_started(tmp_path: Path, record: Path) -> None:
    """Its end of the children's input is closed by the kernel, whatever ended it."""
    program = (
        "import sys, time; from pathlib import Path\n"
        "from server.launch.processes import Processes; from catalog.launch.command import Command\n"
        "child = [sys.executable, '-c', 'import sys; print(sys.stdin.read())']\n"
        "started = Processes(Path(sys.argv[1])).start('l', Command(arguments=child, environment={}))\n"
        "print(started.pid, flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "o")], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        assert is_alive(pid)
        server.kill()
        wait_for(lambda: not is_alive(pid), "the child's end")
