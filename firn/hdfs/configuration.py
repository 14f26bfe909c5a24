"""The cluster's own files, `core-site.xml` and `hdfs-site.xml`, and what Firn reads in them.

The client reads them itself, but follows no `xi:include`. Firn reads them for what it has to know before a call, and
passes on what it has read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
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
_INCLUDE, _FALLBACK = (f"{{http://www.w3.org/2001/XInclude}}{tag}" for tag in ("include", "fallback"))
_DEEPEST_INCLUDE = 8


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


def _read_file(path: Path, depth: int = 0) -> dict[str, str]:
    try:
        root = ET.parse(path).getroot()  # noqa: S314 - the operator's own file
    except ET.ParseError as error:
        raise ValueError(f"{path} is no XML file: {error}") from error
    return dict(_read_items(root, path, depth))


def _read_items(items: Iterable[ET.Element], path: Path, depth: int) -> Iterator[tuple[str, str]]:
    """Names and values of properties in their order; those of included files in the place of the include."""
    for item in items:
        if item.tag == _INCLUDE:
            yield from _include(item, path, depth)
        elif item.tag != "property":
            yield from _read_items(item, path, depth)
        elif name := item.findtext("name"):
            yield name.strip(), (item.findtext("value") or "").strip()


def _include(item: ET.Element, path: Path, depth: int) -> Iterator[tuple[str, str]]:
    """Read the file that an `xi:include` names, or what stands in its `xi:fallback` if there is no such file."""
    target = path.parent / item.get("href", "").removeprefix("file://")
    if depth == _DEEPEST_INCLUDE:
        raise ValueError(f"{path} includes {target}, and files include each other more than {depth} deep")
    if target.is_file():
        yield from _read_file(target, depth + 1).items()
        return
    instead = item.find(_FALLBACK)
    if instead is None:
        raise ValueError(f"{path} includes {target}, which is no file")
    yield from _read_items(instead, path, depth)


def choose_limits(properties: Mapping[str, str]) -> dict[str, str]:
    """Firn's bounds for calls without an answer, without those that the cluster's files set themselves."""
    return {name: value for name, value in _LIMITS.items() if name not in properties}


def split_location(location: str) -> tuple[str, str]:
    """The file system's address and the path in it, which HDFS takes literally: `%3A` stays three characters."""
    scheme, _, rest = location.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host}", slash + path or "/"


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of a name node; ValueError without a port."""
    host, _, port = text.strip().rpartition(":")
    if not (host and port.isdecimal()):
        raise ValueError(f"{text!r} is no HOST:PORT of a name node")
    return host.strip("[]"), int(port)
