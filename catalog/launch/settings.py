"""Launch settings of a group: optimizers start by hand, on the server's machine, or by spark-submit on a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from catalog.errors import Invalid

LaunchId = NewType("LaunchId", str)

MAX_OPTIMIZERS = 1_000
MAX_SLOTS = 256
_MEMORY = re.compile(r"[1-9][0-9]{0,6}[kmgt]")
_VARIABLE = re.compile(r"\{firn\.([^{}]*)\}")
_ENVIRONMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONF = re.compile(r"spark\.[A-Za-z0-9_.\-/]+")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_OURS = frozenset({"spark.master", "spark.submit.deployMode", "spark.app.name", "spark.driver.memory"})
VARIABLES = ("group", "launch", "server", "slots")
"""The variables of values, written `{firn.group}`."""


class LaunchKind(StrEnum):
    """The starter of a group's optimizers."""

    NONE = "none"  # people, anywhere
    LOCAL = "local"  # the server, as processes of its own machine
    SPARK_SUBMIT = "spark-submit"  # the server, by spark-submit


class DeployMode(StrEnum):
    """The machine on which spark-submit runs the optimizer itself."""

    CLIENT = "client"  # on the server's machine; only Spark's tasks run on the cluster
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """The number of optimizers, and the conditions that change it."""

    minimum: int = 0
    maximum: int = 1
    queue_seconds: int = 10
    """The server starts another optimizer when a job has waited this long. It starts the first one at once."""
    idle_seconds: int = 600
    """The server ends an optimizer that has held no job for this long, down to the minimum."""
    cool_down_seconds: int = 60
    """The pause between two such changes."""
    start_seconds: int = 300
    """An optimizer that has not registered by then has failed."""
    max_attempts: int = 5
    """The number of successive failed starts after which the server stops trying until the settings change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """An operator's launch settings of a group."""

    kind: LaunchKind = LaunchKind.NONE
    scaling: Scaling = Scaling()
    slots: int = 2
    memory: str = "2g"
    """The heap of the driver, which plans jobs and, locally, runs them."""
    memory_limit: int | None = None
    """Memory limit in bytes of a local optimizer's processes. Above it the server drains it, above 1.5 times the limit
    it kills it.
    """
    master: str = "local[*]"
    deploy_mode: DeployMode = DeployMode.CLIENT
    conf: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    py_files: tuple[str, ...] = ()
    application: str | None = None
    """The program for spark-submit; by default the one installed beside the server."""
    image: str | None = None
    namespace: str | None = None


def check_launch(launch: Launch) -> Launch:
    """The settings themselves; Invalid if one of them cannot work."""
    _check_scaling(launch.scaling)
    _require(1 <= launch.slots <= MAX_SLOTS, f"{launch.slots} slots: 1 to {MAX_SLOTS} can be had")
    _require(_MEMORY.fullmatch(launch.memory) is not None, f"{launch.memory!r} is no memory size such as 512m or 4g")
    _require(launch.memory_limit is None or launch.memory_limit > 0, "a memory limit is a number of bytes above 0")
    for key, value in launch.conf.items():
        _require(_CONF.fullmatch(key) is not None, f"{key!r} is no setting of Spark: they begin with spark.")
        _require(key not in _OURS, f"{key} is set by a field of its own")
        _check_value(key, value)
    for key, value in launch.environment.items():
        _require(_ENVIRONMENT.fullmatch(key) is not None, f"{key!r} is no name of an environment variable")
        _require(key != "FIRN_TOKEN", "the server sets FIRN_TOKEN itself, because nobody may read it")
        _check_value(key, value)
    single = {"master": launch.master, "application": launch.application, "image": launch.image}
    for name, text in {**single, **{f"py_files: {py_file}": py_file for py_file in launch.py_files}}.items():
        _require(text is None or text != "", f"{name} is empty")
        _check_value(name, text or "")
        _require(not (text or "").startswith("-"), f"{name} {text!r} would be taken for an option")
    _require(
        all("," not in py_file for py_file in launch.py_files), "give py_files as a list: a comma is not allowed in one"
    )
    if launch.namespace is not None:
        _require(_LABEL.fullmatch(launch.namespace) is not None, f"{launch.namespace!r} is no namespace of Kubernetes")
    _check_place(launch)
    return launch


def _check_scaling(scaling: Scaling) -> None:
    low, high = scaling.minimum, scaling.maximum
    _require(0 <= low <= high <= MAX_OPTIMIZERS, f"{low} to {high} optimizers: bounds rise, up to {MAX_OPTIMIZERS:,}")
    for name in ("queue_seconds", "idle_seconds", "cool_down_seconds"):
        _require(0 <= getattr(scaling, name) <= 10**7, f"{name} is out of bounds")
    _require(1 <= scaling.start_seconds <= 10**5, "start_seconds is out of bounds")
    _require(1 <= scaling.max_attempts <= 1_000, "max_attempts is out of bounds")


def _check_place(launch: Launch) -> None:
    match launch.kind:
        case LaunchKind.LOCAL:
            _require(launch.master.startswith("local"), "a local optimizer has a local master; use kind spark-submit")
            _require(launch.image is None and launch.namespace is None, "image and namespace are for Kubernetes")
        case LaunchKind.SPARK_SUBMIT:
            local = launch.master.startswith("local")
            _require(not local or launch.deploy_mode is DeployMode.CLIENT, "a local master has no cluster to deploy on")
            on_kubernetes = launch.master.startswith("k8s://")
            _require(on_kubernetes or launch.namespace is None, "only a master k8s://… has namespaces")
            _require(on_kubernetes or launch.image is None, "only a master k8s://… has images")
        case LaunchKind.NONE:
            pass


def _check_value(name: str, text: str) -> None:
    _require("\0" not in text and "\n" not in text and "\r" not in text, f"the value of {name} has more than one line")
    for variable in _VARIABLE.findall(text):
        variables = ", ".join(f"{{firn.{variable_name}}}" for variable_name in VARIABLES)
        _require(variable in VARIABLES, f"{name} names {{firn.{variable}}}: there are {variables}")


def fill_variables(text: str, variables: Mapping[str, str]) -> str:
    """The text with `{firn.group}` and the other variables replaced once."""
    return _VARIABLE.sub(lambda match: variables[match.group(1)], text)


def _require(holds: bool, message: str) -> None:  # noqa: FBT001 -- an assertion with words
    if not holds:
        raise Invalid(message)
