"""Bad input and broken machines: one clear message, the right exit code, nothing done."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.firn.cli.conftest import Command, serving


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["table", "show", "db.missing"], 1, "db.missing"),
        (["table", "show", "missing"], 2, "NAMESPACE.TABLE"),
        (["table", "list", "--catalog", "nowhere"], 1, "nowhere"),
        (["catalog", "show", "nowhere"], 1, "nowhere"),
        (["table", "create", "bad.t"], 2, "--columns"),
        (["table", "create", "bad.t", "--columns", "id"], 2, "'id' is no column"),
        (["table", "create", "bad.t", "--columns", "id nonsense"], 2, "nonsense"),
        (["table", "create", "bad.t", "--columns", "id long, id int"], 2, "named twice"),
        (["table", "create", "bad.t", "--columns", "id long", "--primary-key", "key"], 2, "no column 'key'"),
        (["table", "create", "bad.t", "--columns", "id double", "--primary-key", "id"], 2, "double"),
        (["table", "create", "bad.t", "--columns", "id long", "--partition-by", "fortnight(id)"], 2, "fortnight"),
        (["table", "create", "bad.t", "--columns", "id long", "--property", "x"], 2, "KEY=VALUE"),
        (["table", "create", "bad.t", "--schema", "/no/such/file.sql"], 2, "/no/such/file.sql"),
        (["table", "properties", "bad.t", "--set", "=x"], 2, "KEY=VALUE"),
        (["table", "merge", "bad.t", "--mode", "sideways"], 2, "sideways"),
        (["job", "show", "00000000-0000-0000-0000-000000000000"], 1, "00000000-0000-0000-0000-000000000000"),
        (["job", "show", "seven"], 2, "valid UUID"),
        (["hive", "check", "sales.orders"], 2, "metastore"),
        (["hive", "upgrade", "sales.*"], 1, "sales.*"),
        (["sql", "select 1", "--catalog", "nowhere"], 2, "nowhere"),
        (["table", "nonsense"], 2, "nonsense"),
        (["table", "list", "--limit", "0"], 2, "--limit"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_usage_and_refusals(run: Command, arguments: list[str], code: int, says: str) -> None:
    said = run(*arguments)
    assert (said.code, said.out) == (code, ""), said.err
    assert says in said.err


def test_nothing_is_left_of_refused_tables(run: Command) -> None:
    run("table", "create", "half.t", "--columns", "id double", "--primary-key", "id")
    assert run("table", "list", "half", "--json").json == []


def test_errors_are_json_for_programs(run: Command) -> None:
    said = run("table", "show", "db.missing", "--json")
    problem = json.loads(said.err)["error"]
    assert said.out == ""
    assert "db.missing" in problem["message"]
    assert problem["request_id"]


def test_no_server(run: Command, free_port: int) -> None:
    said = run("table", "list", "--server", f"http://127.0.0.1:{free_port}")
    assert (said.code, said.out) == (1, "")
    assert "no Firn server answers" in said.err
    assert "firn up" in said.err


def test_a_server_of_something_else(run: Command) -> None:
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().split("port ")[1].split()[0]
            said = run("table", "list", "--server", f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            process.wait(10)
    assert said.code == 1
    assert "does not answer like Firn" in said.err


def test_a_server_stops_cleanly_on_sigterm(run: Command, tmp_path: Path) -> None:
    with serving(tmp_path / "data") as (url, process):
        assert httpx.get(f"{url}/readyz").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGTERM)
        assert process.stdout is not None
        assert process.stdout.read() == ""


def test_two_servers_on_one_directory(run: Command, tmp_path: Path) -> None:
    with serving(tmp_path / "data"):
        second = run.apart("serve", "--data-dir", str(tmp_path / "data"), "--port", "0")
    assert second.code == 2
    assert "another Firn server" in second.err


def test_a_port_in_use(run: Command, server: str, tmp_path: Path) -> None:
    port = server.rpartition(":")[2]
    said = run.apart("serve", "--data-dir", str(tmp_path / "data"), "--port", port)
    assert said.code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in said.err
    up = run.apart("up", "--data-dir", str(tmp_path / "other"), "--port", port)
    assert up.code == 1
    assert f"cannot listen on port {port}" in up.err


def test_a_data_directory_that_cannot_be(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    assert str(file) in run.apart("serve", "--data-dir", str(file), "--port", "0").err
    missing = run.apart("up", "--data-dir", str(tmp_path / "no" / "such"), "--port", "0")
    assert missing.code == 1
    assert f"{tmp_path / 'no'} does not exist" in missing.err


def test_settings_that_do_not_fit(run: Command, tmp_path: Path) -> None:
    said = run.apart("serve", "--data-dir", str(tmp_path / "data"), "--port", "0", env={"FIRN_LEASE__SECONDS": "soon"})
    assert said.code == 2
    assert "lease.seconds" in said.err


def test_no_java(run: Command, tmp_path: Path) -> None:
    for arguments in (["up", "--data-dir", str(tmp_path / "data"), "--port", "0"], ["optimizer"], ["sql", "select 1"]):
        said = run.apart(*arguments, env={"JAVA_HOME": str(tmp_path / "nowhere")})
        assert said.code == 1, arguments
        assert "JAVA_HOME" in said.err


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
