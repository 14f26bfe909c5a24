"""Both distributions, built as wheels and tried in empty virtual environments, outside the repository."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PathDistribution
from pathlib import Path

import httpx
import pytest

from tests.integration.packaging.environment import Environment, make_environment

REPOSITORY = Path(__file__).parents[3]
SERVER_PACKAGES = {"catalog", "migrations", "optimizer", "server"}
NOT_OF_THE_CLIENT = ("fastapi", "sqlalchemy", "alembic", "uvicorn", "pyarrow", "pyiceberg", "pyspark", "thrift")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels, as `make wheel` builds them."""
    built = tmp_path_factory.mktemp("wheels")
    build = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*build, "--no-build-isolation", "-w", str(built), "./firn", "."], cwd=REPOSITORY, check=True)
    return {wheel.name.partition("-")[0].replace("_", "-"): wheel for wheel in built.glob("*.whl")}


@pytest.fixture(scope="module")
def client(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """`pip install firn`."""
    return make_environment(tmp_path_factory.mktemp("client"), [wheels["firn"]])


@pytest.fixture(scope="module")
def server(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """`pip install firn-server`."""
    return make_environment(tmp_path_factory.mktemp("server"), list(wheels.values()))


@pytest.fixture(scope="module")
def everything(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """`pip install 'firn-server[spark]'`."""
    return make_environment(tmp_path_factory.mktemp("everything"), list(wheels.values()), extras=["spark"])


def test_both_wheels_have_one_version(wheels: dict[str, Path]) -> None:
    assert set(wheels) == {"firn", "firn-server"}
    assert {wheel.name.split("-")[1] for wheel in wheels.values()} == {"0.1.0"}


def test_the_client_installs_one_name(client: Environment) -> None:
    assert client.packages() == {"firn"}
    assert (client.site / "firn" / "spark" / "ivysettings.xml").is_file()
    assert not (client.site / "firn" / "pyproject.toml").exists()


def test_the_server_installs_its_packages_beside_the_client(server: Environment) -> None:
    assert server.packages() == {"firn", *SERVER_PACKAGES}
    assert (server.site / "server" / "console" / "index.html").is_file()


def test_the_client_requires_few_distributions(client: Environment) -> None:
    """The environment holds what the wheel requires and nothing else, so a forgotten requirement would fail here."""
    installed = {PathDistribution(info).name.lower() for info in client.site.glob("*.dist-info")}
    assert {"firn", "httpx", "pydantic", "typer"} <= installed
    assert len(installed) < 30, sorted(installed)
    missing = "; ".join(
        f"assert find_spec({name!r}) is None, {name!r}" for name in (*NOT_OF_THE_CLIENT, *SERVER_PACKAGES)
    )
    checked = client.run("python", "-P", "-c", f"from importlib.util import find_spec; {missing}")
    assert (checked.code, checked.err) == (0, "")


def test_the_client_works_without_the_server(client: Environment) -> None:
    code = "import firn.client, firn.cli.app, firn.spark.jars; firn.connect('http://127.0.0.1:9')"
    imported = client.run("python", "-P", "-c", code)
    assert (imported.code, imported.err) == (0, "")
    helped = client.run("firn", "--help")
    assert (helped.code, helped.err) == (0, "")
    assert "optimizer" in helped.out


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("up",), "'firn-server[spark]'"),
        (("metastore",), "'firn-server[spark]'"),
        (("optimizer",), "'firn-server[spark]'"),
        (("serve",), "firn-server"),
        (("token", "reset-admin"), "firn-server"),
    ],
    ids=["up", "metastore", "optimizer", "serve", "token reset-admin"],
)
def test_the_client_alone_names_the_server_as_missing(
    client: Environment, arguments: tuple[str, ...], wanted: str
) -> None:
    output = client.run("firn", *arguments)
    assert (output.code, output.out) == (1, "")
    name = "firn " + " ".join(arguments)
    assert output.err == (
        f"firn: {name} needs the Firn server, which is not installed. Install it: pip install {wanted}\n"
    )


def test_the_client_alone_names_the_extra_that_a_scan_needs(client: Environment) -> None:
    output = client.run("python", "-P", "-c", "import firn; firn.connect('http://127.0.0.1:9').scan('db.t')")
    assert output.err.splitlines()[-1] == (
        "firn.errors.FirnError: reading a table without Spark needs PyArrow and PyIceberg: pip install 'firn[scan]'"
    )


def test_the_server_without_pyspark_names_the_extra(server: Environment) -> None:
    helped = server.run("firn", "up", "--help")
    assert helped.code == 0
    assert "--data-dir" in helped.out
    output = server.run("firn", "up", "--data-dir", "data", "--port", "0")
    assert (output.code, output.out) == (1, "")
    assert output.err == (
        "firn: firn up needs PySpark, which is not installed. Install it: pip install 'firn-server[spark]'\n"
    )


def test_a_machine_without_java_is_told_how_to_get_one(everything: Environment) -> None:
    """Only the search path of the child lacks Java."""
    env = {"PATH": str(everything.root / "bin"), "JAVA_HOME": ""}
    output = everything.run("firn", "up", "--data-dir", "data", "--port", "0", env=env)
    assert (output.code, output.out) == (1, "")
    assert "No Java was found on the search path" in output.err


def test_the_server_alone_answers_with_its_console(server: Environment) -> None:
    """From the wheels: migrations, the console and the API all come with them."""
    with _started(server, "serve", "--data-dir", "alone") as url:
        assert httpx.get(f"{url}/readyz").is_success
        assert "<title>" in httpx.get(url).text
        listed = server.run("firn", "catalog", "list", "--json", env={"FIRN_SERVER": url})
        assert (listed.code, listed.err) == (0, "")
        assert '"lake"' in listed.out


@pytest.mark.spark
@pytest.mark.hive
def test_firn_up_works_without_a_clone(everything: Environment) -> None:
    with _started(everything, "up", "--data-dir", "all") as url:
        assert httpx.get(f"{url}/readyz").is_success
        catalogs = httpx.get(f"{url}/api/v1/catalogs").json()
        assert "thrift://127.0.0.1:" in str(catalogs)


@contextmanager
def _started(environment: Environment, *arguments: str) -> Iterator[str]:
    """The address of a Firn that runs for the block, and ends in order after it."""
    command = [environment.program("firn"), *arguments, "--port", "0"]
    with (
        (environment.root / "firn.log").open("w", encoding="utf-8") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=environment.root, env=environment.settings()
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            answers = re.match(r"Firn .*answers at (http://127\.0\.0\.1:\d+) ", line)
            assert answers is not None, line + Path(log.name).read_text(encoding="utf-8")
            yield answers[1]
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
    assert code in (0, -signal.SIGTERM)  # uvicorn raises the signal again after it has stopped in order
