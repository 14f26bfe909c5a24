"""Containers as plain processes: what the Dockerfile, Compose or Kubernetes would start, with this machine's paths.

No builder of images is needed. Names of hosts, paths of volumes and ports are replaced in the text of a file before it
is read, so programs, arguments and variables are those that users deploy.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).parents[3]
DOCKERFILE = (REPOSITORY / "Dockerfile").read_text("utf-8")


@dataclass(frozen=True)
class Container:
    """A program with its arguments, and the variables that its image or its file sets."""

    command: Sequence[str]
    environment: Mapping[str, str]

    def settings(self) -> dict[str, str]:
        """Its variables, with none of Firn's that this process has; programs are those of this environment."""
        own = {key: value for key, value in os.environ.items() if not key.startswith("FIRN_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}"
        return {**own, "PATH": path, "PYTHONPATH": str(REPOSITORY), **self.environment}

    def run(self) -> None:
        """Run it to its end; fail with what it printed if that is no success."""
        done = subprocess.run(
            self.command, env=self.settings(), capture_output=True, text=True, check=False, timeout=120, cwd="/"
        )
        assert done.returncode == 0, done.stderr

    @contextmanager
    def running(self) -> Iterator[Path]:
        """Run it in the background; give the file of its output, and end it as an orchestrator does, by SIGTERM."""
        with (
            tempfile.NamedTemporaryFile(suffix=".log") as log,
            subprocess.Popen(self.command, env=self.settings(), stdout=log, stderr=log, cwd="/") as process,
        ):
            try:
                yield Path(log.name)
            finally:
                process.terminate()
                process.wait(120)


def of_image(target: str, dockerfile: str) -> tuple[list[str], dict[str, str]]:
    """The entry point and the variables that the Dockerfile gives to the image `target`."""
    _, _, stage = dockerfile.partition(f" AS {target}\n")
    stage = re.split(r"^FROM ", stage, maxsplit=1, flags=re.MULTILINE)[0]
    entry_point = json.loads(re.findall(r"^ENTRYPOINT (\[.*\])$", stage, re.MULTILINE)[0])
    variables = dict(
        pair.split("=", 1) for line in re.findall(r"^ENV (.*)$", stage, re.MULTILINE) for pair in line.split()
    )
    return entry_point, variables


def replaced(text: str, replacements: Mapping[str, str]) -> str:
    """The text with each key of `replacements` in place of its value; each key must occur."""
    for old, new in replacements.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def of_compose(text: str, dockerfile: str) -> dict[str, Container]:
    """The containers of a Compose file that have an image of Firn, by their service."""
    services: dict[str, Any] = yaml.safe_load(text)["services"]
    ours = {name: service for name, service in services.items() if service["image"].startswith("firn-")}
    return {name: _of_service(service, dockerfile) for name, service in ours.items()}


def _of_service(service: Mapping[str, Any], dockerfile: str) -> Container:
    entry_point, variables = of_image(service["image"].removeprefix("firn-"), dockerfile)
    return Container(
        [*service.get("entrypoint", entry_point), *service["command"]], {**variables, **service.get("environment", {})}
    )


def of_pod(container: Mapping[str, Any], dockerfile: str, known: Mapping[str, str]) -> Container:
    """A container of a pod. `known` has the values of variables that come from Secrets or from the pod."""
    entry_point, variables = of_image(container["image"].partition(":")[0].removeprefix("firn-"), dockerfile)
    pod_variables = {
        variable["name"]: variable.get("value", known.get(variable["name"])) for variable in container["env"]
    }
    return Container([*container.get("command", entry_point), *container["args"]], {**variables, **pod_variables})
