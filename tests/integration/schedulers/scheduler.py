"""Airflow and Dagster, each with the packages of its lock and the client's wheel, and nothing of Firn's environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[3]
PROGRAMS = Path(__file__).parent / "programs"
RESULT = "RESULT "
"""What the line begins with in which a program prints its result, as JSON."""


def build_client(directory: Path) -> Path:
    """The wheel of the client, unpacked: with the entry point by which Airflow finds the provider."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    wheel = [*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(directory), "./firn"]
    subprocess.run(wheel, cwd=REPOSITORY, check=True)
    install = [
        *pip,
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-compile",
        "--target",
        str(directory / "site"),
    ]
    subprocess.run([*install, *map(str, directory.glob("firn-*.whl"))], check=True)
    return directory / "site"


@dataclass(frozen=True)
class Scheduler:
    """One of them, with a home directory of its own. `name` is that of its lock."""

    name: str
    client: Path
    home: Path
    settings: Mapping[str, str]

    def start(self, *arguments: str, **settings: str) -> subprocess.Popen[str]:
        """Start Python with these arguments."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FIRN_", "COV"))}
        packages = REPOSITORY / ".venv" / self.name
        assert packages.is_dir(), f"make .venv/.made/{self.name} installs it"
        environment = {
            **kept,
            "PYTHONPATH": f"{self.client}:{packages}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "LIMIT_SECONDS": str(6 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))),
            "no_proxy": "localhost,127.0.0.1",
            **self.settings,
            **settings,
        }
        # Not the interpreter of the virtual environment: it would bring Firn's packages along.
        python: str = getattr(sys, "_base_executable", sys.executable)
        command, pipe = [python, *arguments], subprocess.PIPE
        return subprocess.Popen(command, cwd=self.home, env=environment, text=True, stdout=pipe, stderr=pipe)

    def run(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run Python with these arguments to its end."""
        with self.start(*arguments, **settings) as process:
            try:
                stdout, stderr = process.communicate(timeout=800)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def result_of(self, program: str, *arguments: str, **settings: str) -> Any:
        """The result of a program that lies beside the tests."""
        done = self.run(str(PROGRAMS / program), *arguments, **settings)
        lines = [line for line in done.stdout.splitlines() if line.startswith(RESULT)]
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
        assert len(lines) == 1, done.stdout[-6000:] + done.stderr[-6000:]
        return json.loads(lines[0].removeprefix(RESULT))

    def run_dags(self, url: str, pipeline: str, *dags: str, **settings: str) -> Any:
        """What became of the DAGs in Airflow, one after the other, with this server and this pipeline."""
        return self.result_of("airflow_run.py", *dags, **settings, **name_server(url, pipeline))

    @contextmanager
    def running(self, program: str, *arguments: str, **settings: str) -> Iterator[subprocess.Popen[str]]:
        """A program that lies beside the tests in a process of its own, which is killed if it lives on."""
        with self.start(str(PROGRAMS / program), *arguments, **settings) as process:
            try:
                yield process
            finally:
                process.kill()


def name_server(url: str, pipeline: str) -> dict[str, str]:
    """The environment by which DAGs find a server and a pipeline."""
    connection = json.dumps({"conn_type": "firn", "host": url})
    return {"PIPELINE": pipeline, "AIRFLOW_CONN_FIRN_DEFAULT": connection}
