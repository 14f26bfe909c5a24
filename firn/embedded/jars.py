"""Fetches jars by their Maven coordinates with PySpark's Ivy, into one cache for all checkouts of this user."""

from __future__ import annotations

import os
import subprocess
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree as ET

from firn.embedded.errors import JarsUnavailable
from firn.embedded.process import require_java
from firn.embedded.pyspark_jars import pyspark_jar

Coordinate: TypeAlias = tuple[str, str, str]
"""A Maven coordinate: group, artifact, version."""
FETCH_SECONDS = 600


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The directory of fetched jars, for all checkouts of this user: in $XDG_CACHE_HOME or ~/.cache."""
    env = os.environ if environ is None else environ
    root = env.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "firn"


def run_ivy(*arguments: str) -> str:
    """Run Ivy and return the end of its output. The caller checks the fetched files for success."""
    command = [str(require_java().path), "-jar", str(pyspark_jar("ivy-*.jar")), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FETCH_SECONDS)
    except subprocess.TimeoutExpired:
        return f"(nothing after {FETCH_SECONDS} s)"
    return "\n".join((done.stdout + done.stderr).splitlines()[-15:])


def jar_set_dir(ivy_file: Path) -> Path:
    """The directory of the jars that an Ivy file lists. If it exists, it is complete, because a fetch moves it there.

    Another list has another directory.
    """
    return cache_dir() / f"{ivy_file.stem}-{zlib.crc32(' '.join(_file_names(ivy_file)).encode()):08x}"


def fetch_jar_set(ivy_file: Path) -> Path:
    """The directory of the jars that an Ivy file lists. If it is missing, Ivy fetches them and compares checksums.

    Raises JarsUnavailable with Ivy's own message, and leaves no partial directory.
    """
    directory = jar_set_dir(ivy_file)
    if directory.is_dir():
        return directory
    cache_dir().mkdir(parents=True, exist_ok=True)
    # In the same directory, so that the move is one step, also if two processes fetch at once.
    with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch:
        fetched = Path(scratch, "jars")
        output = run_ivy(
            *("-settings", str(Path(__file__).with_name("ivysettings.xml"))),
            *("-cache", str(Path(scratch, "ivy"))),
            *("-ivy", str(ivy_file)),
            *("-retrieve", f"{fetched}/[artifact]-[revision].[ext]"),
        )
        missing = [name for name in _file_names(ivy_file) if not (fetched / name).is_file()]
        if missing:
            raise JarsUnavailable(
                f"Ivy did not fetch {', '.join(missing)}. Is Maven Central reachable? "
                f"The end of Ivy's output:\n{output}"
            )
        try:
            fetched.rename(directory)
        except OSError:
            if not directory.is_dir():  # otherwise another process has fetched the same jars meanwhile
                raise
    return directory


def _file_names(ivy_file: Path) -> list[str]:
    dependencies = ET.parse(ivy_file).findall(".//dependency")  # noqa: S314 -- a file of this package
    return [f"{dependency.get('name')}-{dependency.get('rev')}.jar" for dependency in dependencies]
