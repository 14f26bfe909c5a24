"""The package for the nodes of a cluster: Firn and its Python packages in one zip, and the Iceberg runtime beside it.

Spark unpacks the zip beside each driver and executor (`spark.archives`), and Python imports from the directory. So the
nodes need Java, Python of the same version, and no package index. Spark brings PySpark itself.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from firn.embedded.errors import EmbeddedError
from firn.spark.jars import fetch

PACKAGES = ("catalog", "firn", "optimizer")
"""Firn's own packages, as far as an optimizer imports them."""
DISTRIBUTIONS = (
    *("cramjam", "duckdb", "fastavro", "hdfs-native", "httpx", "jinja2", "numpy", "orjson", "pyarrow", "pydantic"),
    *("pyiceberg", "pyparsing", "pyroaring", "pyyaml", "sqlglot", "typing-extensions", "zstandard"),
)
"""The distributions that these packages import; the archive has those that they need, too."""
OWN_DISTRIBUTIONS = ("firn", "firn-server")
BY_SPARK = frozenset({"pyspark", "py4j"})
_LEFT_OUT = frozenset({"__pycache__", "tests", "include", "includes"})
_NOT_COPIED = re.compile(r"\.(pyc|pxd|pxi|pyx|h|pth)$|/(RECORD|INSTALLER|REQUESTED|direct_url\.json)$")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of all files in the zip, so that equal contents give equal archives."""


class PackageRefused(EmbeddedError):
    """The package cannot be made, or a file is in its way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePackage:
    """A written package."""

    archive: Path
    archive_bytes: int
    unpacked_bytes: int
    jars: tuple[Path, ...]
    distributions: Mapping[str, str]
    """The version of each distribution in the archive."""
    python: str
    platform: str


def write_package(archive: Path, *, overwrite: bool = False) -> NodePackage:
    """Write the archive, and the Iceberg runtime into the same directory. Raises PackageRefused.

    The files appear whole or not at all.
    """
    if archive.suffix != ".zip":
        raise PackageRefused(f"{archive} does not end with .zip, by which Spark knows how to unpack it")
    if not archive.parent.is_dir():
        raise PackageRefused(f"{archive.parent} is no directory")
    runtime = fetch()
    jar = archive.with_name(runtime.name)
    for file in (archive, jar):
        if file.exists() and not overwrite and not _is_copy(file, runtime):
            raise PackageRefused(f"{file} exists already. Add --force to overwrite it")
    members = dict(_list_members())
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".firn-package-") as scratch:
        _write_zip(Path(scratch, archive.name), members)
        shutil.copyfile(runtime, Path(scratch, jar.name))
        for path in (archive, jar):
            Path(scratch, path.name).replace(path)
    return NodePackage(
        archive=archive,
        archive_bytes=archive.stat().st_size,
        unpacked_bytes=sum(source.stat().st_size for source in members.values()),
        jars=(jar,),
        distributions={name: dist.version for name, dist in sorted(_close_over(DISTRIBUTIONS).items())},
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        platform=sysconfig.get_platform(),
    )


def _is_copy(path: Path, original: Path) -> bool:
    """Whether the path is the runtime of an earlier package, whose name has its version."""
    return path.name == original.name and path.stat().st_size == original.stat().st_size


def _write_zip(path: Path, members: Mapping[str, Path]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in sorted(members.items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, source.read_bytes())


def _list_members() -> Iterator[tuple[str, Path]]:
    """The names of all files in the archive, and where each comes from."""
    for package in PACKAGES:
        yield from _list_package(package)
    for name in OWN_DISTRIBUTIONS:
        yield from _list_files(_find(name, needed_by="Firn"), only_metadata=True)
    for dist in _close_over(DISTRIBUTIONS).values():
        yield from _list_files(dist)


def _list_package(package: str) -> Iterator[tuple[str, Path]]:
    spec = find_spec(package)
    locations = [] if spec is None else list(spec.submodule_search_locations or ())
    if not locations:
        raise PackageRefused(f"the package {package} is not installed. Install it: pip install 'firn-server[spark]'")
    top = Path(locations[0])
    for directory, folders, files in os.walk(top):
        folders[:] = sorted(set(folders) - _LEFT_OUT)
        for file in files:
            if file.endswith((".py", ".xml")):
                path = Path(directory, file)
                yield f"{package}/{path.relative_to(top).as_posix()}", path


def _list_files(dist: Distribution, *, only_metadata: bool = False) -> Iterator[tuple[str, Path]]:
    for file in dist.files or ():
        path = PurePosixPath(file)
        is_metadata = path.parts[0].endswith(".dist-info")
        outside = path.is_absolute() or ".." in path.parts  # a script
        if (
            outside
            or _LEFT_OUT & set(path.parts)
            or _NOT_COPIED.search(f"/{path}")
            or (only_metadata and not is_metadata)
        ):
            continue
        source = Path(str(dist.locate_file(file)))
        if source.is_file():
            yield str(path), source


def _close_over(names: Iterable[str]) -> dict[str, Distribution]:
    """The distributions of these names, and all that they need, by name."""
    closed: dict[str, Distribution] = {}
    waiting = [(name, "Firn", True) for name in names]
    while waiting:
        name, needed_by, is_certain = waiting.pop()
        if name in closed or name in BY_SPARK:
            continue
        try:
            dist = _find(name, needed_by=needed_by)
        except PackageRefused:
            if is_certain:
                raise
            continue  # a marker says for which Python or system it is
        closed[name] = dist
        waiting += [(needed, name, certain) for needed, certain in _list_requirements(dist)]
    return closed


def _list_requirements(dist: Distribution) -> Iterator[tuple[str, bool]]:
    """The names that a distribution needs without extras, and whether it needs them on every system."""
    for requirement in dist.requires or ():
        named, _, marker = requirement.partition(";")
        match = _NAME.match(named.strip())
        if match is not None and "extra" not in marker:
            yield re.sub(r"[-_.]+", "-", match.group()).lower(), not marker.strip()


def _find(name: str, *, needed_by: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise PackageRefused(
            f"{needed_by} needs {name}, which is not installed. Install it: pip install {name}"
        ) from None
