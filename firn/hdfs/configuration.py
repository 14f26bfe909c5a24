"""The cluster's own files, `core-site.xml` and `hdfs-site.xml`, and what Firn reads in them.

The client reads them itself. Firn reads them for what it has to know before a call: mount points, and which limits the
operator has set.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

FILES = ("core-site.xml", "hdfs-site.xml")
"""In the order in which they are read; the later file wins."""
CONF_DIR = "HADOOP_CONF_DIR"
USER = "HADOOP_USER_NAME"
TICKETS = "KRB5CCNAME"
"""The cache of Kerberos tickets, and so the user of a cluster with Kerberos."""
TOKENS = "HADOOP_TOKEN_FILE_LOCATION"
"""A file of tokens, which the client prefers to tickets. It reads the file for each new connection."""
_LIMITS = {
    "dfs.client.failover.max.attempts": "5",
    "dfs.client.failover.sleep.base.millis": "200",
    "dfs.client.failover.sleep.max.millis": "2000",
}
"""Bounds of calls that no name node answers, about 5 s. The client's own are 15 attempts, and took three minutes."""
_MOUNTS = "fs.viewfs.mounttable."
_RPC_ADDRESS = "dfs.namenode.rpc-address"


def find_conf_dir(environ: Mapping[str, str] | None = None) -> Path | None:
    """The directory of the cluster's files, named by the environment; None if none is named."""
    env = os.environ if environ is None else environ
    if named := env.get(CONF_DIR):
        return Path(named)
    home = env.get("HADOOP_HOME")
    return Path(home) / "etc" / "hadoop" if home else None


def read_configuration(directory: Path | None) -> dict[str, str]:
    """The properties of the cluster's files; a missing file has none. ValueError names a file that is no XML."""
    properties: dict[str, str] = {}
    for name in FILES if directory is not None else ():
        path = Path(directory or "", name)
        if path.is_file():
            properties |= _read_file(path)
    return properties


def _read_file(path: Path) -> dict[str, str]:
    try:
        root = ET.parse(path).getroot()  # noqa: S314 - the operator's own file
    except ET.ParseError as error:
        raise ValueError(f"{path} is no XML file: {error}") from error
    pairs = ((item.findtext("name"), item.findtext("value")) for item in root.iter("property"))
    return {name.strip(): (value or "").strip() for name, value in pairs if name}


def choose_limits(properties: Mapping[str, str]) -> dict[str, str]:
    """Firn's bounds for calls without an answer, without those that the cluster's files set themselves."""
    return {name: value for name, value in _LIMITS.items() if name not in properties}


def find_mount(properties: Mapping[str, str], location: str) -> str:
    """What a file can be renamed within: the file system's address, and for ViewFS the mount point as well."""
    root, path = split_location(location)
    if not root.startswith("viewfs:"):
        return root
    cluster = root.partition("://")[2] or "default"
    link = f"{_MOUNTS}{cluster}.link."
    mounts = [name.removeprefix(link).rstrip("/") for name in properties if name.startswith(link)]
    within = [mount for mount in mounts if path == mount or path.startswith(f"{mount}/")]
    return f"{root}{max(within, key=len, default='')}"


def split_location(location: str) -> tuple[str, str]:
    """The file system's address and the path in it, which HDFS takes literally: `%3A` stays three characters."""
    scheme, _, rest = location.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host}", slash + path or "/"


def list_name_nodes(properties: Mapping[str, str], location: str) -> list[tuple[str, int]]:
    """Host and port of the name nodes of a location; empty if the cluster's files do not know its name service.

    Raises ValueError for an address without a port.
    """
    root, path = split_location(location)
    scheme, _, service = root.partition("://")
    if scheme == "viewfs":
        return list_name_nodes(properties, _follow_mount(properties, service or "default", path))
    if ":" in service:
        return [_parse_address(service)]
    ids = [name.strip() for name in properties.get(f"dfs.ha.namenodes.{service}", "").split(",") if name.strip()]
    keys = [f"{_RPC_ADDRESS}.{service}.{name}" for name in ids] or [f"{_RPC_ADDRESS}.{service}"]
    return [_parse_address(properties[key]) for key in keys if properties.get(key)]


def _follow_mount(properties: Mapping[str, str], cluster: str, path: str) -> str:
    """The location behind a path of ViewFS; `hdfs://` if there is no mount point and no fallback."""
    link = f"{_MOUNTS}{cluster}.link."
    mounts = [name.removeprefix(link).rstrip("/") for name in properties if name.startswith(link)]
    within = [mount for mount in mounts if path == mount or path.startswith(f"{mount}/")]
    if within:
        return properties[link + max(within, key=len)]
    return properties.get(f"{_MOUNTS}{cluster}.linkFallback", "hdfs://")


def _parse_address(text: str) -> tuple[str, int]:
    host, _, port = text.strip().rpartition(":")
    if not (host and port.isdecimal()):
        raise ValueError(f"{text!r} is no HOST:PORT of a name node")
    return host.strip("[]"), int(port)
