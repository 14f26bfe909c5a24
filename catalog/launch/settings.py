"""Launch settings of a group: optimizers start by hand, on the server's machine, or by spark-submit on a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from catalog.launch.value_checks import (
    MAX_CONF_CHARACTERS,
    check_location,
    check_pattern,
    check_text,
    quote,
    require,
)

LaunchId = NewType("LaunchId", str)

MAX_OPTIMIZERS = 1_000
MAX_SLOTS = 256
MAX_STREAMS = 256
MAX_QUERIES = 256
MAX_KEY_CHARACTERS = 300
"""The longest name of a Spark setting or environment variable."""
_MEMORY = re.compile(r"[1-9][0-9]{0,6}[kmgt]")
_ENVIRONMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONF = re.compile(r"spark\.[A-Za-z0-9_.\-/]+")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_MASTER = re.compile(r"local(\[[^\]\s]*\])?|yarn|(k8s|spark)://\S+")
_QUEUE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,254}")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\-]{0,254}")
_PRINCIPAL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,99}(/[A-Za-z0-9_.\-]{1,253})?(@[A-Za-z0-9_.\-]{1,253})?")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@\-]{0,511}")
_SERVICE_ACCOUNT = re.compile(r"[a-z0-9]([a-z0-9.\-]{0,251}[a-z0-9])?")
_FILE_SYSTEM = re.compile(r"[a-z][a-z0-9+.\-]*://[A-Za-z0-9_.:\[\]\-]+/?")
_ARCHIVE = re.compile(r"\S+\.(zip|tar|tar\.gz|tgz|jar)")
OWN_SETTINGS = {
    "spark.master": "master",
    "spark.submit.deployMode": "deploy_mode",
    "spark.app.name": "group and launch",
    "spark.driver.memory": "memory",
    "spark.yarn.queue": "queue",
    "spark.kerberos.principal": "principal",
    "spark.yarn.principal": "principal",
    "spark.kerberos.keytab": "keytab",
    "spark.yarn.keytab": "keytab",
    "spark.kerberos.access.hadoopFileSystems": "file_systems",
    "spark.yarn.access.hadoopFileSystems": "file_systems",
    "spark.archives": "archive",
    "spark.yarn.dist.archives": "archive",
    "spark.jars": "jars",
    "spark.submit.pyFiles": "py_files",
    "spark.kubernetes.container.image": "image",
    "spark.kubernetes.driver.container.image": "image",
    "spark.kubernetes.namespace": "namespace",
    "spark.kubernetes.authenticate.driver.serviceAccountName": "service_account",
    "spark.kubernetes.driver.podTemplateFile": "image, namespace and service_account",
}
"""Settings of Spark, each with the launch setting that the server makes it from."""


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
    streams: int = 0
    """The number of streams that each optimizer runs beside its jobs."""
    sql: int = 0
    """The number of queries of people that each optimizer answers beside its jobs."""
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
    jars: tuple[str, ...] = ()
    """Jars for the driver and the executors, with Iceberg's runtime among them; by default the server's runtime."""
    archive: str | None = None
    """The archive of `firn optimizer package`: what the nodes of a cluster unpack and import."""
    queue: str | None = None
    """The queue of YARN."""
    principal: str | None = None
    """The Kerberos principal of the optimizer; Spark renews its tickets from the keytab."""
    keytab: str | None = None
    """A file of the server's machine."""
    proxy_user: str | None = None
    """The user as whom the optimizer works on the cluster; excludes a keytab."""
    file_systems: tuple[str, ...] = ()
    """Further file systems for which Spark gets Kerberos tokens, such as `hdfs://archive`."""
    image: str | None = None
    namespace: str | None = None
    service_account: str | None = None
    """The account of Kubernetes with which the driver creates its executors."""

    @property
    def is_on_kubernetes(self) -> bool:
        """Whether the master is a Kubernetes."""
        return self.master.startswith("k8s://")

    @property
    def is_on_yarn(self) -> bool:
        """Whether the master is YARN."""
        return self.master == "yarn"


def check_launch(launch: Launch) -> Launch:
    """The settings themselves; Invalid if one of them cannot work."""
    _check_scaling(launch.scaling)
    require(1 <= launch.slots <= MAX_SLOTS, f"{launch.slots} slots: 1 to {MAX_SLOTS} can be had")
    require(0 <= launch.streams <= MAX_STREAMS, f"{launch.streams} streams: 0 to {MAX_STREAMS} can be had")
    require(0 <= launch.sql <= MAX_QUERIES, f"sql is {launch.sql}: 0 to {MAX_QUERIES} queries can be had")
    require(
        _MEMORY.fullmatch(launch.memory) is not None, f"{quote(launch.memory)} is no memory size: 512m or 4g is one"
    )
    require(launch.memory_limit is None or launch.memory_limit > 0, "a memory limit is a number of bytes above 0")
    _check_maps(launch)
    _check_locations(launch)
    _check_names(launch)
    _check_kerberos(launch)
    _check_place(launch)
    return launch


def _check_scaling(scaling: Scaling) -> None:
    low, high = scaling.minimum, scaling.maximum
    require(0 <= low <= high <= MAX_OPTIMIZERS, f"{low} to {high} optimizers: bounds rise, up to {MAX_OPTIMIZERS:,}")
    for name in ("queue_seconds", "idle_seconds", "cool_down_seconds"):
        require(0 <= getattr(scaling, name) <= 10**7, f"{name} is out of bounds")
    require(1 <= scaling.start_seconds <= 10**5, "start_seconds is out of bounds")
    require(1 <= scaling.max_attempts <= 1_000, "max_attempts is out of bounds")


def _check_maps(launch: Launch) -> None:
    for key, value in launch.conf.items():
        is_key = len(key) <= MAX_KEY_CHARACTERS and _CONF.fullmatch(key) is not None
        require(is_key, f"{quote(key)} is no setting of Spark: they begin with spark.")
        own = OWN_SETTINGS.get(key)
        require(own is None, f"{key} is set by a field of its own: {own}")
        check_text(key, value, limit=MAX_CONF_CHARACTERS)
    for key, value in launch.environment.items():
        is_name = len(key) <= MAX_KEY_CHARACTERS and _ENVIRONMENT.fullmatch(key) is not None
        require(is_name, f"{quote(key)} is no name of an environment variable")
        require(key != "FIRN_TOKEN", "the server sets FIRN_TOKEN itself, because nobody may read it")
        check_text(key, value, limit=MAX_CONF_CHARACTERS)


def _check_locations(launch: Launch) -> None:
    for name in ("master", "application", "archive", "keytab"):
        check_location(name, getattr(launch, name))
    for name in ("py_files", "jars", "file_systems"):
        for location in getattr(launch, name):
            check_location(name, location)
            require("," not in location, f"give {name} as a list: a comma is not allowed in one")
    check_pattern("master", launch.master, _MASTER, "master: local[*], yarn, k8s://… and spark://… are")
    require("#" not in (launch.archive or ""), "archive has a #: the server itself names the directory of the archive")
    check_pattern("archive", launch.archive, _ARCHIVE, "archive: a .zip or .tar.gz is one")
    for file_system in launch.file_systems:
        check_pattern("file_systems", file_system, _FILE_SYSTEM, "file system: hdfs://NAME is one")


def _check_names(launch: Launch) -> None:
    check_pattern("queue", launch.queue, _QUEUE, "queue of YARN: letters, digits, dots, - and _ are allowed")
    check_pattern("principal", launch.principal, _PRINCIPAL, "Kerberos principal: NAME@REALM or NAME/HOST@REALM is one")
    check_pattern("proxy_user", launch.proxy_user, _USER, "user: letters, digits, dots, @, - and _ are allowed")
    check_pattern("image", launch.image, _IMAGE, "name of an image: REGISTRY/NAME:TAG is one")
    check_pattern("service_account", launch.service_account, _SERVICE_ACCOUNT, "service account of Kubernetes")
    check_pattern("namespace", launch.namespace, _LABEL, "namespace of Kubernetes")


def _check_kerberos(launch: Launch) -> None:
    if launch.proxy_user is not None:
        require(
            launch.keytab is None and launch.principal is None,
            "proxy_user excludes keytab and principal: spark-submit refuses both, because the tokens of another user "
            "cannot be renewed from a keytab",
            hint="unset proxy_user, or keytab and principal",
        )
    require((launch.keytab is None) == (launch.principal is None), "keytab and principal need each other")


def _check_place(launch: Launch) -> None:
    if launch.kind is LaunchKind.NONE:
        return
    local = launch.master.startswith("local")
    if launch.kind is LaunchKind.LOCAL:
        require(local, "a local optimizer has a local master; use kind spark-submit")
        submitted = [name for name in ("application", "py_files", "jars") if getattr(launch, name)]
        require(not submitted, f"{', '.join(submitted)}: only kind spark-submit has this")
    elif launch.streams:
        require(
            bool(launch.jars) or "spark.jars.packages" in launch.conf,
            "streams need Spark's connector to Kafka, which spark-submit has to load: jars names none",
            hint="set jars to the Iceberg runtime and the connector's four jars",
        )
    require(not local or launch.deploy_mode is DeployMode.CLIENT, "a local master has no cluster to deploy on")
    _require_master(launch, ("image", "namespace", "service_account"), "k8s://…", holds=launch.is_on_kubernetes)
    _require_master(launch, ("queue",), "yarn", holds=launch.is_on_yarn)
    secure = launch.is_on_kubernetes or launch.is_on_yarn
    _require_master(launch, ("principal", "keytab", "proxy_user", "file_systems"), "yarn or k8s://…", holds=secure)
    _require_master(launch, ("archive",), "yarn, k8s://… or spark://…", holds=not local)
    if launch.is_on_kubernetes and launch.deploy_mode is DeployMode.CLUSTER and launch.application is None:
        require(
            "spark.kubernetes.file.upload.path" in launch.conf,
            "on Kubernetes in cluster mode set application: the driver does not see the server's files",
            hint="an example is application=local:///opt/firn/optimizer/__main__.py for a file of the image",
        )


def _require_master(launch: Launch, names: tuple[str, ...], masters: str, *, holds: bool) -> None:
    named = [name for name in names if getattr(launch, name)]
    require(holds or not named, f"only a master {masters} has {', '.join(named)}")
