"""ViewFS: the mount points of a cluster's files, and the HDFS behind them.

Firn follows mount points itself. The client demands a fallback, which most clusters do not have, and refuses the whole
mount table if one mount point leads elsewhere than to HDFS (decision 162).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from firn.hdfs.configuration import parse_address, read_configuration, split_location

_SCHEME = "viewfs:"
_TABLES = "fs.viewfs.mounttable"
_DEFAULT_NAME = "fs.viewfs.mounttable.default.name.key"
_RPC_ADDRESS = "dfs.namenode.rpc-address"


@dataclass(frozen=True, slots=True)
class MountTable:
    """The mount points of one ViewFS."""

    root: str
    """The ViewFS, `viewfs://NAME`."""
    links: tuple[tuple[str, str], ...]
    """Mount points, such as `/data`, and the locations behind them; the longest first, because they may be nested."""
    rest: str | None
    """The location behind all other paths, if there is one."""

    def find_point(self, path: str) -> str:
        """The mount point of a path; empty if it is behind none."""
        return next((point for point, _ in self.links if path == point or path.startswith(f"{point}/")), "")

    def follow(self, path: str) -> str:
        """The location on HDFS behind a path. ValueError if there is none: nobody may take it for a missing file."""
        point = self.find_point(path)
        target = dict(self.links).get(point, self.rest)
        if target is None:
            points = ", ".join(sorted(name for name, _ in self.links)) or "none"
            raise ValueError(f"{self.root}{path} is behind no mount point of the ViewFS (core-site.xml has {points})")
        if not target.startswith("hdfs://"):
            raise ValueError(f"{self.root}{point} is a mount point of ViewFS that leads to {target}, which is no HDFS")
        return f"{target.rstrip('/')}{path.removeprefix(point)}"


def read_mount_table(properties: Mapping[str, str], root: str) -> MountTable:
    """Find the mount points of a ViewFS in the cluster's properties; `viewfs://` is the one without a name."""
    table = f"{_TABLES}.{_get_name(properties, root)}"
    link = f"{table}.link."
    links = {name.removeprefix(link).rstrip("/"): to for name, to in properties.items() if name.startswith(link)}
    rest = properties.get(f"{table}.linkFallback", properties.get(f"{table}.linkMergeSlash"))
    return MountTable(root, tuple(sorted(links.items(), key=lambda item: len(item[0]), reverse=True)), rest)


def _get_name(properties: Mapping[str, str], root: str) -> str:
    """The name of the mount table. Without one in the location, the default file system may name it."""
    default = split_location(properties.get("fs.defaultFS", ""))[0]
    named = root.partition("://")[2] or (default.startswith(_SCHEME) and default.partition("://")[2])
    return named or properties.get(_DEFAULT_NAME, "default")


@lru_cache(maxsize=16)
def load_mount_table(conf_dir: Path | None, root: str) -> MountTable:
    """Read it from the cluster's files, once in the life of a process. ValueError names a file that is no XML."""
    return read_mount_table(read_configuration(conf_dir), root)


def resolve_location(location: str, conf_dir: Path | None) -> str:
    """The location on HDFS behind one of ViewFS; any other location as it is. Raises ValueError as `follow` does."""
    if not location.startswith(_SCHEME):
        return location
    root, path = split_location(location)
    return load_mount_table(conf_dir, root).follow(path)


def find_mount(location: str, conf_dir: Path | None) -> str:
    """What a file can be renamed within: the file system's address, and for ViewFS the mount point as well."""
    root, path = split_location(location)
    return f"{root}{load_mount_table(conf_dir, root).find_point(path)}" if root.startswith(_SCHEME) else root


def list_name_nodes(properties: Mapping[str, str], location: str) -> list[tuple[str, int]]:
    """Host and port of the name nodes of a location; empty if the cluster's files do not know its name service.

    Raises ValueError for an address without a port, and for a path of ViewFS that leads nowhere.
    """
    root, path = split_location(location)
    if root.startswith(_SCHEME):
        return list_name_nodes(properties, read_mount_table(properties, root).follow(path))
    service = root.partition("://")[2]
    if ":" in service:
        return [parse_address(service)]
    ids = [name.strip() for name in properties.get(f"dfs.ha.namenodes.{service}", "").split(",") if name.strip()]
    keys = [f"{_RPC_ADDRESS}.{service}.{name}" for name in ids] or [f"{_RPC_ADDRESS}.{service}"]
    return [parse_address(properties[key]) for key in keys if properties.get(key)]


def list_mounted(properties: Mapping[str, str]) -> list[str]:
    """The locations behind the mount points of all ViewFS of the cluster's files."""
    return [text for name, text in properties.items() if name.startswith(f"{_TABLES}.") and "://" in text]
