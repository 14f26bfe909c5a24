"""A launch as a process: its arguments, its environment, and the files that it reads. Nothing is for a shell."""

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
    """Where the server is and what it has at hand."""

    server: str
    """Its address, as optimizers reach it."""
    python: str
    spark_submit: str
    application: str
    directory: str
    """Of this launch: its files lie there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to run. `files` are to be written before, into the launch's directory, readable by nobody else."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)


def build_command(launch: Launch, *, group: str, launch_id: LaunchId, place: LaunchPaths, token: str | None) -> Command:
    """How one optimizer of the group is started."""
    variables = {"group": group, "launch": launch_id, "server": place.server, "slots": str(launch.slots)}
    environment = {name: fill_variables(value, variables) for name, value in launch.environment.items()}
    secret = {} if token is None else {"FIRN_TOKEN": token}
    conf = {key: fill_variables(value, variables) for key, value in launch.conf.items()}
    of_optimizer = ["--server", place.server, "--group", group, "--slots", str(launch.slots), "--launch", launch_id]
    if launch.kind is LaunchKind.LOCAL:
        return _local(launch, place, of_optimizer, conf, environment | secret)
    return _submitted(launch, place, of_optimizer, conf, environment, secret, variables)


def _local(
    launch: Launch, place: LaunchPaths, of_optimizer: list[str], conf: Mapping[str, str], environment: dict[str, str]
) -> Command:
    if conf:
        pairs = [part for key, value in sorted(conf.items()) for part in ("--conf", f"{key}={value}")]
        environment["PYSPARK_SUBMIT_ARGS"] = shlex.join([*pairs, "pyspark-shell"])  # PySpark splits it as a shell would
    program = [place.python, "-P", "-m", "optimizer", *of_optimizer, "--tied"]
    return Command(
        arguments=[*program, "--master", launch.master, "--driver-memory", launch.memory], environment=environment
    )


def _submitted(
    launch: Launch,
    place: LaunchPaths,
    of_optimizer: list[str],
    conf: dict[str, str],
    environment: dict[str, str],
    secret: dict[str, str],
    variables: Mapping[str, str],
) -> Command:
    """Settings go through a file, since a command line can be read by every user of the machine."""
    group, launch_id = variables["group"], variables["launch"]
    files: dict[str, str] = {}
    if launch.deploy_mode is DeployMode.CLUSTER:
        conf |= _for_the_cluster(launch, environment | secret, variables)
        if launch.master.startswith("k8s://"):
            files[POD] = build_driver_pod(launch, group=group, launch_id=launch_id)
            conf["spark.kubernetes.driver.podTemplateFile"] = f"{place.directory}/{POD}"
    files[PROPERTIES] = format_properties(conf)
    arguments = [place.spark_submit, "--master", fill_variables(launch.master, variables)]
    arguments += ["--deploy-mode", launch.deploy_mode.value, "--name", f"firn-optimizer-{group}-{launch_id}"]
    arguments += ["--driver-memory", launch.memory, "--properties-file", f"{place.directory}/{PROPERTIES}"]
    arguments.append("--load-spark-defaults")  # given a file of its own, Spark would pass over the cluster's settings
    if launch.py_files:
        arguments += ["--py-files", ",".join(fill_variables(one, variables) for one in launch.py_files)]
    arguments += [fill_variables(launch.application or place.application, variables), *of_optimizer]
    if launch.deploy_mode is DeployMode.CLIENT:
        return Command(arguments=[*arguments, "--tied"], environment=environment | secret, files=files)
    return Command(arguments=arguments, environment={}, files=files)


def _for_the_cluster(launch: Launch, environment: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """spark-submit stays until the optimizer has ended: its end is how the server hears of a failure."""
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
    """The pod that Kubernetes runs the optimizer in, as far as Spark leaves it to us. JSON is YAML too."""
    labels = {"app.kubernetes.io/name": "firn-optimizer", "firn/group": group.strip("_-"), "firn/launch": launch_id}
    metadata: dict[str, Any] = {"labels": labels}
    if launch.namespace is not None:
        metadata["namespace"] = launch.namespace
    spec = {
        "restartPolicy": "Never",  # the server starts another one, and says why
        "terminationGracePeriodSeconds": 60,
        "containers": [{"name": "spark-kubernetes-driver"}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return json.dumps(pod, indent=2) + "\n"


def format_properties(settings: Mapping[str, str]) -> str:
    """A file as Java's Properties reads it: one setting a line, whatever stands in its value."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in sorted(settings.items()))


def _escaped(text: str) -> str:
    return _NOT_PLAIN.sub(lambda found: _escape(found.group()), text)


def _escape(character: str) -> str:
    if character in "\\:=#! ":
        return f"\\{character}"
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
