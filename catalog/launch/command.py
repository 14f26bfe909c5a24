"""A launch as a process: its arguments, its environment and its files. No shell reads them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from catalog.launch.settings import DeployMode, Launch, LaunchId, LaunchKind, fill_variables

PROPERTIES = "spark.conf"
POD = "driver-pod.json"
_NOT_PLAIN = re.compile(r"[^!-~]|[\\:=#!]")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPaths:
    """The server's address, and the programs and directories of a launch."""

    server: str
    """The server's address, as optimizers reach it."""
    python: str
    spark_submit: str
    application: str
    directory: str
    """The directory of this launch's files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A process to start. Write `files` into the launch's directory first, readable only by the server's user."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)


def build_command(launch: Launch, *, group: str, launch_id: LaunchId, paths: LaunchPaths, token: str | None) -> Command:
    """The command that starts one optimizer of the group."""
    variables = {"group": group, "launch": launch_id, "server": paths.server, "slots": str(launch.slots)}
    environment = {name: fill_variables(value, variables) for name, value in launch.environment.items()}
    secret = {} if token is None else {"FIRN_TOKEN": token}
    conf = {key: fill_variables(value, variables) for key, value in launch.conf.items()}
    optimizer_arguments = [
        "--server",
        paths.server,
        "--group",
        group,
        "--slots",
        str(launch.slots),
        "--launch",
        launch_id,
    ]
    if launch.kind is LaunchKind.LOCAL:
        return _build_local_command(launch, paths, optimizer_arguments, conf, environment | secret)
    return _build_submit_command(launch, paths, optimizer_arguments, conf, environment, secret, variables)


def _build_local_command(
    launch: Launch,
    paths: LaunchPaths,
    optimizer_arguments: list[str],
    conf: Mapping[str, str],
    environment: dict[str, str],
) -> Command:
    if conf:
        pairs = [part for key, value in sorted(conf.items()) for part in ("--conf", f"{key}={value}")]
        environment["PYSPARK_SUBMIT_ARGS"] = shlex.join([*pairs, "pyspark-shell"])  # PySpark splits it as a shell does
    program = [paths.python, "-P", "-m", "optimizer", *optimizer_arguments, "--tied"]
    return Command(
        arguments=[*program, "--master", launch.master, "--driver-memory", launch.memory], environment=environment
    )


def _build_submit_command(
    launch: Launch,
    paths: LaunchPaths,
    optimizer_arguments: list[str],
    conf: dict[str, str],
    environment: dict[str, str],
    secret: dict[str, str],
    variables: Mapping[str, str],
) -> Command:
    """The command of spark-submit. Settings go through a file, because every user of the machine can read a command
    line.
    """
    group, launch_id = variables["group"], variables["launch"]
    files: dict[str, str] = {}
    if launch.deploy_mode is DeployMode.CLUSTER:
        conf |= _build_cluster_settings(launch, environment | secret, variables)
        if launch.master.startswith("k8s://"):
            files[POD] = build_driver_pod(launch, group=group, launch_id=launch_id)
            conf["spark.kubernetes.driver.podTemplateFile"] = f"{paths.directory}/{POD}"
    files[PROPERTIES] = format_properties(conf)
    arguments = [paths.spark_submit, "--master", fill_variables(launch.master, variables)]
    arguments += ["--deploy-mode", launch.deploy_mode.value, "--name", f"firn-optimizer-{group}-{launch_id}"]
    arguments += ["--driver-memory", launch.memory, "--properties-file", f"{paths.directory}/{PROPERTIES}"]
    # With `--properties-file`, Spark would ignore the cluster's own settings.
    arguments.append("--load-spark-defaults")
    if launch.py_files:
        arguments += ["--py-files", ",".join(fill_variables(py_file, variables) for py_file in launch.py_files)]
    arguments += [fill_variables(launch.application or paths.application, variables), *optimizer_arguments]
    if launch.deploy_mode is DeployMode.CLIENT:
        return Command(arguments=[*arguments, "--tied"], environment=environment | secret, files=files)
    return Command(arguments=arguments, environment={}, files=files)


def _build_cluster_settings(
    launch: Launch, environment: Mapping[str, str], variables: Mapping[str, str]
) -> dict[str, str]:
    """spark-submit waits until the optimizer ends, so the server learns of a failure."""
    if not launch.master.startswith("k8s://"):
        own = {f"spark.yarn.appMasterEnv.{name}": value for name, value in environment.items()}
        return own | {"spark.yarn.submit.waitAppCompletion": "true"}
    own = {f"spark.kubernetes.driverEnv.{name}": value for name, value in environment.items()}
    own["spark.kubernetes.submission.waitAppCompletion"] = "true"
    if launch.image is not None:
        own["spark.kubernetes.container.image"] = fill_variables(launch.image, variables)
    if launch.namespace is not None:
        own["spark.kubernetes.namespace"] = launch.namespace
    if "spark.kubernetes.driver.secretKeyRef.FIRN_TOKEN" in launch.conf:
        own.pop("spark.kubernetes.driverEnv.FIRN_TOKEN", None)
    return own


def build_driver_pod(launch: Launch, *, group: str, launch_id: str) -> str:
    """The pod of the optimizer on Kubernetes, as far as Spark's template allows. JSON is valid YAML."""
    labels = {"app.kubernetes.io/name": "firn-optimizer", "firn/group": group.strip("_-"), "firn/launch": launch_id}
    metadata: dict[str, Any] = {"labels": labels}
    if launch.namespace is not None:
        metadata["namespace"] = launch.namespace
    spec = {
        "restartPolicy": "Never",  # the server starts another optimizer, and says why
        "terminationGracePeriodSeconds": 60,
        "containers": [{"name": "spark-kubernetes-driver"}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return json.dumps(pod, indent=2) + "\n"


def format_properties(settings: Mapping[str, str]) -> str:
    """A file in the format of Java's Properties: one setting a line, with all characters escaped that need it."""
    return "".join(f"{_escape_text(key)}={_escape_text(value)}\n" for key, value in sorted(settings.items()))


def _escape_text(text: str) -> str:
    return _NOT_PLAIN.sub(lambda match: _escape(match.group()), text)


def _escape(character: str) -> str:
    if character in "\\:=#! ":
        return f"\\{character}"
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
