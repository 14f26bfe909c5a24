"""How the optimizers of a group are started: by hand, on the server's machine, or by spark-submit on a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from catalog.errors import Invalid

LaunchId = NewType("LaunchId", str)

MOST_OPTIMIZERS = 1_000
MOST_SLOTS = 256
_MEMORY = re.compile(r"[1-9][0-9]{0,6}[kmgt]")
_VARIABLE = re.compile(r"\{firn\.([^{}]*)\}")
_ENVIRONMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONF = re.compile(r"spark\.[A-Za-z0-9_.\-/]+")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_OURS = frozenset({"spark.master", "spark.submit.deployMode", "spark.app.name", "spark.driver.memory"})
VARIABLES = ("group", "launch", "server", "slots")
"""What values may name as `{firn.group}` and so on."""


class LaunchKind(StrEnum):
    """Who starts a group's optimizers."""

    NONE = "none"  # people, anywhere
    LOCAL = "local"  # the server, as processes of its own machine
    SPARK_SUBMIT = "spark-submit"  # the server, by spark-submit


class DeployMode(StrEnum):
    """Where spark-submit runs the optimizer itself."""

    CLIENT = "client"  # on the server's machine; only Spark's tasks run on the cluster
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """How many optimizers there are to be, and when that changes."""

    minimum: int = 0
    maximum: int = 1
    queue_seconds: int = 10
    """One more is started when a job has waited this long, and the first at once."""
    idle_seconds: int = 600
    """One that has held no job for this long is ended, down to the minimum."""
    cool_down_seconds: int = 60
    """Pause between two such changes."""
    start_seconds: int = 300
    """One that has not registered by then has failed."""
    max_attempts: int = 5
    """Starts that fail in a row before it is left alone until its settings change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What an operator has set for a group."""

    kind: LaunchKind = LaunchKind.NONE
    scaling: Scaling = Scaling()
    slots: int = 2
    memory: str = "2g"
    """Heap of the driver, where jobs are planned and, locally, run."""
    memory_limit: int | None = None
    """Bytes of its processes from which on a local one is replaced; at half as much again it is killed."""
    master: str = "local[*]"
    deploy_mode: DeployMode = DeployMode.CLIENT
    conf: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    py_files: tuple[str, ...] = ()
    application: str | None = None
    """The program that spark-submit is given; by default the one that is installed beside the server."""
    image: str | None = None
    namespace: str | None = None


def check_launch(launch: Launch) -> Launch:
    """The settings themselves; Invalid when one of them cannot work."""
    _check_scaling(launch.scaling)
    _need(1 <= launch.slots <= MOST_SLOTS, f"{launch.slots} slots: 1 to {MOST_SLOTS} can be had")
    _need(_MEMORY.fullmatch(launch.memory) is not None, f"{launch.memory!r} is no memory size such as 512m or 4g")
    _need(launch.memory_limit is None or launch.memory_limit > 0, "a memory limit is a number of bytes above 0")
    for key, value in launch.conf.items():
        _need(_CONF.fullmatch(key) is not None, f"{key!r} is no setting of Spark: they begin with spark.")
        _need(key not in _OURS, f"{key} is set by a field of its own")
        _check_value(key, value)
    for key, value in launch.environment.items():
        _need(_ENVIRONMENT.fullmatch(key) is not None, f"{key!r} is no name of an environment variable")
        _need(key != "FIRN_TOKEN", "FIRN_TOKEN is given by the server: it is shown to nobody")
        _check_value(key, value)
    single = {"master": launch.master, "application": launch.application, "image": launch.image}
    for name, text in {**single, **{f"py_files: {one}": one for one in launch.py_files}}.items():
        _need(text is None or text != "", f"{name} is empty")
        _check_value(name, text or "")
        _need(not (text or "").startswith("-"), f"{name} {text!r} would be taken for an option")
    _need(all("," not in one for one in launch.py_files), "py_files are given one by one")
    if launch.namespace is not None:
        _need(_LABEL.fullmatch(launch.namespace) is not None, f"{launch.namespace!r} is no namespace of Kubernetes")
    _check_place(launch)
    return launch


def _check_scaling(scaling: Scaling) -> None:
    low, high = scaling.minimum, scaling.maximum
    _need(0 <= low <= high <= MOST_OPTIMIZERS, f"{low} to {high} optimizers: bounds rise, up to {MOST_OPTIMIZERS:,}")
    for name in ("queue_seconds", "idle_seconds", "cool_down_seconds"):
        _need(0 <= getattr(scaling, name) <= 10**7, f"{name} is out of bounds")
    _need(1 <= scaling.start_seconds <= 10**5, "start_seconds is out of bounds")
    _need(1 <= scaling.max_attempts <= 1_000, "max_attempts is out of bounds")


def _check_place(launch: Launch) -> None:
    match launch.kind:
        case LaunchKind.LOCAL:
            _need(launch.master.startswith("local"), "a local optimizer has a local master; use kind spark-submit")
            _need(launch.image is None and launch.namespace is None, "image and namespace are for Kubernetes")
        case LaunchKind.SPARK_SUBMIT:
            local = launch.master.startswith("local")
            _need(not local or launch.deploy_mode is DeployMode.CLIENT, "a local master has no cluster to deploy on")
            on_kubernetes = launch.master.startswith("k8s://")
            _need(on_kubernetes or launch.namespace is None, "only a master k8s://… has namespaces")
            _need(on_kubernetes or launch.image is None, "only a master k8s://… has images")
        case LaunchKind.NONE:
            pass


def _check_value(name: str, text: str) -> None:
    _need("\0" not in text and "\n" not in text and "\r" not in text, f"the value of {name} has more than one line")
    for variable in _VARIABLE.findall(text):
        known = ", ".join(f"{{firn.{one}}}" for one in VARIABLES)
        _need(variable in VARIABLES, f"{name} names {{firn.{variable}}}: there are {known}")


def fill_variables(text: str, variables: Mapping[str, str]) -> str:
    """The text with `{firn.group}` and so on replaced; what replaces them is not looked at again."""
    return _VARIABLE.sub(lambda found: variables[found.group(1)], text)


def _need(holds: bool, otherwise: str) -> None:  # noqa: FBT001 -- an assertion with words
    if not holds:
        raise Invalid(otherwise)
