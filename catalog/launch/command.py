"""A launch as a process: its arguments, its environment and its files. No shell reads them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from catalog.errors import Invalid
from catalog.launch.settings import DeployMode, Launch, LaunchId, LaunchKind
from catalog.launch.value_checks import fill_variables

PROPERTIES = "spark.conf"
POD = "driver-pod.json"
HIDDEN = "(hidden)"
"""The text that stands for a secret where people read a command."""
PACKAGE_DIRECTORY = "firn"
"""The directory of the unpacked archive in the working directory of driver and executors."""
UTC = "-Duser.timezone=UTC"
"""Java moves wall-clock times of ORC files by its zone, and reads the option only when it starts."""
_NOT_PLAIN = re.compile(r"[^!-~]|[\\:=#!]")
_SECRET = re.compile(r"(?i)secret|passw|token|access[._]?key|credential")
_NO_SECRET = re.compile(r"(?i)secretKeyRef|\.secrets\.|\.tokens?\.renewal")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPaths:
    """The server's address, and the programs and directories of a launch."""

    server: str
    """The server's address, as optimizers reach it."""
    python: str
    """The server's own Python."""
    spark_submit: str
    application: str
    directory: str
    """The directory of this launch's files."""
    spark_home: str | None = None
    """The Spark of a spark-submit that pip installed. Without it, this one asks `python3` of the path for PySpark."""
    node_python: str = "python3"
    """The Python of a cluster's nodes, of the same version as the archive's packages."""
    iceberg: Mapping[str, str] = field(default_factory=dict)
    """Spark's settings that load the server's Iceberg runtime. spark-submit needs them: once Java runs it is too
    late.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A process to start. Write `files` into the launch's directory first, readable only by the server's user."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)


def build_command(launch: Launch, *, group: str, launch_id: LaunchId, paths: LaunchPaths, token: str | None) -> Command:
    """The command that starts one optimizer of the group; Invalid if users start its optimizers."""
    if launch.kind is LaunchKind.NONE:
        raise Invalid(
            f"users start the optimizers of group {group}", hint="set the launch's kind to local or spark-submit"
        )
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
        *(("--streams", str(launch.streams)) if launch.streams else ()),
        *(("--sql", str(launch.sql)) if launch.sql else ()),
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
    environment = _build_environment(launch, paths, environment.get("PYSPARK_PYTHON")) | environment
    conf = _build_defaults(launch, paths) | conf | _build_own_settings(launch, variables)
    if launch.deploy_mode is DeployMode.CLUSTER:
        conf |= _build_cluster_settings(launch, environment | secret)
    if launch.is_on_kubernetes and launch.deploy_mode is DeployMode.CLUSTER:
        files[POD] = build_driver_pod(launch, group=group, launch_id=launch_id)
        conf["spark.kubernetes.driver.podTemplateFile"] = f"{paths.directory}/{POD}"
    files[PROPERTIES] = format_properties(conf)
    arguments = [paths.spark_submit, "--master", fill_variables(launch.master, variables)]
    arguments += ["--deploy-mode", launch.deploy_mode.value, "--name", f"firn-optimizer-{group}-{launch_id}"]
    arguments += ["--driver-memory", launch.memory, "--properties-file", f"{paths.directory}/{PROPERTIES}"]
    # With `--properties-file`, Spark would ignore the cluster's own settings.
    arguments.append("--load-spark-defaults")
    if launch.proxy_user is not None:
        arguments += ["--proxy-user", fill_variables(launch.proxy_user, variables)]
    for option, locations in (("--jars", launch.jars), ("--py-files", launch.py_files)):
        if locations:
            arguments += [option, ",".join(fill_variables(location, variables) for location in locations)]
    if launch.archive is not None:
        arguments += ["--archives", f"{fill_variables(launch.archive, variables)}#{PACKAGE_DIRECTORY}"]
    arguments += [fill_variables(launch.application or paths.application, variables), *optimizer_arguments]
    tools = {} if paths.spark_home is None else {"SPARK_HOME": paths.spark_home}
    if launch.deploy_mode is DeployMode.CLIENT:
        return Command(arguments=[*arguments, "--tied"], environment=tools | environment | secret, files=files)
    return Command(arguments=arguments, environment=tools, files=files)


def _build_environment(launch: Launch, paths: LaunchPaths, chosen_python: str | None) -> dict[str, str]:
    """The driver's environment, which an operator may replace with `environment`."""
    python = chosen_python or (paths.python if launch.master.startswith("local") else paths.node_python)
    if launch.deploy_mode is DeployMode.CLIENT:
        return {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": paths.python}
    # On Kubernetes the image has the Python. On YARN the environment of spark-submit would reach the driver, with the
    # paths of the server's machine.
    own = {} if launch.is_on_kubernetes else {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    return own if launch.archive is None else own | {"PYTHONPATH": PACKAGE_DIRECTORY}


def _build_defaults(launch: Launch, paths: LaunchPaths) -> dict[str, str]:
    """Spark's settings that an operator may replace with `conf`."""
    defaults = {"spark.driver.defaultJavaOptions": UTC, "spark.executor.defaultJavaOptions": UTC}
    sees_server_files = not launch.is_on_kubernetes or launch.deploy_mode is DeployMode.CLIENT
    if sees_server_files and not launch.jars and "spark.jars.packages" not in launch.conf:
        defaults |= paths.iceberg
    if launch.is_on_yarn and launch.deploy_mode is DeployMode.CLUSTER:
        # The server starts another optimizer, and says why the last one ended.
        defaults["spark.yarn.maxAppAttempts"] = "1"
    if launch.archive is not None:
        defaults["spark.executorEnv.PYTHONPATH"] = PACKAGE_DIRECTORY
    return defaults


def _build_own_settings(launch: Launch, variables: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings that the server makes from fields of the launch."""
    file_systems = ",".join(launch.file_systems)
    values = {
        "spark.yarn.queue": launch.queue,
        "spark.kerberos.principal": launch.principal,
        "spark.kerberos.keytab": launch.keytab,
        "spark.kerberos.access.hadoopFileSystems": file_systems or None,
        "spark.kubernetes.container.image": launch.image,
        "spark.kubernetes.namespace": launch.namespace,
        "spark.kubernetes.authenticate.driver.serviceAccountName": launch.service_account,
    }
    return {key: fill_variables(value, variables) for key, value in values.items() if value is not None}


def _build_cluster_settings(launch: Launch, environment: Mapping[str, str]) -> dict[str, str]:
    """spark-submit waits until the optimizer ends, so the server learns of a failure."""
    if not launch.is_on_kubernetes:
        own = {f"spark.yarn.appMasterEnv.{name}": value for name, value in environment.items()}
        return own | {"spark.yarn.submit.waitAppCompletion": "true"}
    own = {f"spark.kubernetes.driverEnv.{name}": value for name, value in environment.items()}
    own["spark.kubernetes.submission.waitAppCompletion"] = "true"
    if "spark.kubernetes.driver.secretKeyRef.FIRN_TOKEN" in launch.conf:
        own.pop("spark.kubernetes.driverEnv.FIRN_TOKEN", None)
    return own


def hide_secrets(launch: Launch) -> Launch:
    """The launch with a placeholder for each value of Spark and of the environment that may be a secret."""
    return replace(launch, conf=_hide_values(launch.conf), environment=_hide_values(launch.environment))


def _hide_values(values: Mapping[str, str]) -> dict[str, str]:
    return {
        key: HIDDEN if _SECRET.search(key) and not _NO_SECRET.search(key) else value for key, value in values.items()
    }


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
