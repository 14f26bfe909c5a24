"""What `firn serve`, `firn up` and the rest say in processes of their own when they cannot start."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.command_line import Command, serving
from tests.forked_programs import ForkedProgram


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(run: Command, free_port: int) -> None:
    proxies = {"HTTP_PROXY": f"http://127.0.0.1:{free_port}", "NO_PROXY": "", "no_proxy": ""}
    assert run.apart("catalog", "list", env=proxies).code == 0


def test_a_server_of_something_else(run: Command) -> None:
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().split("port ")[1].split()[0]
            output = run("table", "list", "--server", f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            process.wait(10)
    assert output.code == 1
    assert "does not answer like Firn" in output.err


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
    output = run.apart("serve", "--data-dir", str(tmp_path / "data"), "--port", port)
    assert output.code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in output.err
    up = run.apart("up", "--data-dir", str(tmp_path / "other"), "--port", port)
    assert up.code == 1
    assert f"cannot listen on port {port}" in up.err


def test_a_data_directory_that_cannot_be(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    assert str(file) in run.apart("serve", "--data-dir", str(file), "--port", "0").err
    for command, code in (("up", 1), ("serve", 2)):
        missing = run.apart(command, "--data-dir", str(tmp_path / "no" / "such"), "--port", "0")
        assert missing.code == code
        assert f"{tmp_path / 'no'} does not exist" in missing.err
        assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("FIRN_LEASE__SECONDS", "soon", "lease.seconds"),
        ("FIRN_LOG_LEVEL", "banana", "log_level: 'banana' is none of DEBUG"),
        ("FIRN_WAREHOUSE", "nonsense", "warehouse: 'nonsense' is no location of a warehouse"),
        ("FIRN_METASTORE", "localhost:9083", "metastore: 'localhost:9083' is not the address"),
        ("FIRN_DATABASE_URL", "nonsense", "the database URL cannot be used"),
        ("FIRN_DATABASE_URL", "mysql://h/d", "names mysql"),
    ],
)
def test_settings_that_do_not_fit(tmp_path: Path, name: str, value: str, says: str) -> None:
    assert says in _refused(tmp_path, env={name: value})


def test_settings_files_that_do_not_fit(tmp_path: Path) -> None:
    file = tmp_path / "firn.toml"
    file.write_text('port = "x', encoding="utf-8")
    assert f"{file} cannot be read" in _refused(tmp_path, "--config", str(file))
    file.write_text("prot = 1", encoding="utf-8")
    assert "prot: there is no such setting" in _refused(tmp_path, "--config", str(file))


def test_databases_that_are_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    database = tmp_path / "data" / "firn.db"
    database.write_bytes(b"no database " * 1000)
    assert str(database) in _refused(tmp_path, code=1)
    database.unlink()
    with sqlite3.connect(database) as newer:
        newer.execute("CREATE TABLE alembic_version (version_num VARCHAR(32))")
        newer.execute("INSERT INTO alembic_version VALUES ('9999')")
    assert "newer version" in _refused(tmp_path)


def _refused(tmp_path: Path, *flags: str, env: dict[str, str] | None = None, code: int = 2) -> str:
    """Start a server that refuses to start, and return what it writes to standard error."""
    log = tmp_path / "refused.log"
    log.unlink(missing_ok=True)
    arguments = ["--data-dir", str(tmp_path / "data"), "--port", "0", *flags]
    with ForkedProgram("server", *arguments, environment={**os.environ, **(env or {})}, log=log) as program:
        printed, returned = program.stdout.read(), program.wait(60)
    errors = log.read_text(encoding="utf-8")
    assert (returned, printed) == (code, ""), errors
    assert "Traceback" not in errors
    return errors


def test_without_pyspark_firn_up_ended_in_a_traceback_about_py4j(run: Command, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['pyspark'] = sys.modules['py4j'] = None\n", encoding="utf-8"
    )
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    at = ["--data-dir", str(tmp_path / "data"), "--port", "0"]
    for arguments in (["up", *at], ["metastore", *at], ["optimizer"]):
        output = run.apart(*arguments, env=env)
        assert (output.code, output.out) == (1, ""), arguments
        assert (
            f"firn {arguments[0]} needs PySpark, which is not installed. Install it: pip install 'firn-server[spark]'"
            in output.err
        )
        assert "Traceback" not in output.err
    assert "PySpark is not installed" in run.apart("sql", "--engine", "local-spark", "select 1", env=env).err


def test_no_java(run: Command, tmp_path: Path) -> None:
    for arguments in (
        ["up", "--data-dir", str(tmp_path / "data"), "--port", "0"],
        ["optimizer"],
        ["sql", "--engine", "local-spark", "select 1"],
    ):
        output = run.apart(*arguments, env={"JAVA_HOME": str(tmp_path / "nowhere")})
        assert output.code == 1, arguments
        assert "JAVA_HOME" in output.err


def test_a_java_that_is_too_old_is_named_with_its_version(run: Command, tmp_path: Path) -> None:
    _java(tmp_path, """echo 'openjdk version "1.8.0_392"' >&2""")
    env = {"JAVA_HOME": "", "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    for arguments in (
        ["up", "--data-dir", str(tmp_path / "data"), "--port", "0"],
        ["optimizer"],
        ["sql", "--engine", "local-spark", "select 1"],
    ):
        output = run.apart(*arguments, env=env)
        assert output.code == 1, arguments
        assert "is Java 1.8.0_392. Firn's metastore and Spark need Java 17 or 21" in output.err


def test_a_spark_that_does_not_start_is_said_in_words(run: Command, tmp_path: Path) -> None:
    _java(tmp_path, """[ "$1" = -version ] && echo 'openjdk version "17.0.1"' >&2 || exit 1""")
    env = {"JAVA_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    output = run.apart("sql", "--engine", "local-spark", "select 1", env=env)
    assert (output.code, output.out) == (1, "")
    assert "Spark does not start" in output.err
    assert str(tmp_path / "cache" / "firn" / "sql.log") in output.err
    # On this machine Spark starts with the first job that needs it, on a cluster at once.
    assert "Spark does not start" in run.apart("optimizer", "--master", "yarn", env=env).err


def _java(home: Path, script: str) -> None:
    (home / "bin").mkdir()
    (home / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (home / "bin" / "java").chmod(0o755)


def test_a_file_where_a_directory_must_be(run: Command, tmp_path: Path) -> None:
    (tmp_path / "conf").write_text("in the way", encoding="utf-8")
    output = run.apart("metastore", "--data-dir", str(tmp_path), "--port", "0")
    assert output.code == 1
    assert str(tmp_path / "conf") in output.err


def test_a_port_that_a_full_disk_has_left_unwritten(run: Command, tmp_path: Path) -> None:
    (tmp_path / "metastore-port").touch()
    output = run.apart("up", "--data-dir", str(tmp_path), "--port", "0")
    assert output.code == 1
    assert f"{tmp_path / 'metastore-port'} holds no port" in output.err
