"""ViewFS over the tests' HDFS: the mount table of a `core-site.xml`, as clusters with several name services have it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

URI = "viewfs://cl"
_TABLE = "fs.viewfs.mounttable.cl"


def write_mounts(directory: Path, mounts: Mapping[str, str], *, fallback: str | None = None) -> Path:
    """Write a `core-site.xml` whose default file system is the ViewFS; returns its directory.

    `mounts` are the locations behind the mount points by name, `fallback` the one behind all other paths.
    """
    links = {f"{_TABLE}.link./{name}": target for name, target in mounts.items()}
    rest = {} if fallback is None else {f"{_TABLE}.linkFallback": fallback}
    items = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>\n"
        for name, value in {"fs.defaultFS": URI, **links, **rest}.items()
    )
    (directory / "core-site.xml").write_text(f"<configuration>\n{items}</configuration>\n", encoding="utf-8")
    return directory
