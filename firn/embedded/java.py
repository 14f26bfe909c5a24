"""Finds the machine's Java, and checks whether Spark and the metastore can use it.

It uses only the standard library and nothing else of Firn: `make setup` runs this file before it installs anything.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SUITABLE = (17, 21)
INSTALLED_UNDER = Path("/usr/lib/jvm")
HOW_TO_INSTALL = (
    "Debian, Ubuntu: apt-get install openjdk-17-jre-headless; Fedora: dnf install java-21-openjdk-headless; "
    "macOS: brew install openjdk@17"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java that Spark and the metastore can use."""

    path: Path
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoJava:
    """There is no suitable Java; `reason` says what is there instead and how to get one."""

    reason: str


def find_java(environ: Mapping[str, str] | None = None) -> Java | NoJava:
    """Find Java where Spark's own launcher looks: in JAVA_HOME, or else on the search path.

    The advice names a suitable Java elsewhere on the machine, but the function does not use it: Spark would not use it
    either, and two different Javas for the metastore and Spark would be hard to debug.
    """
    env = os.environ if environ is None else environ
    home = env.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not java.is_file():
            return NoJava(reason=f"JAVA_HOME is {home}, but it has no bin/java. {_describe_advice()}")
    else:
        on_path = shutil.which("java", path=env.get("PATH"))
        if on_path is None:
            return NoJava(
                reason=f"No Java was found on the search path, and JAVA_HOME is not set. {_describe_advice()}"
            )
        java = Path(on_path)
    version = _read_version(java)
    if version is None:
        return NoJava(reason=f"{java} does not run as Java (it prints no version). {_describe_advice()}")
    if _parse_major(version) not in SUITABLE:
        return NoJava(reason=f"{java} is Java {version}. {_describe_advice()}")
    return Java(path=java, version=version)


def _read_version(java: Path) -> str | None:
    """Read the version from the output of `java -version`; None if it prints none."""
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "([^"]+)"', output.stderr + output.stdout)
    return match.group(1) if match else None


def _parse_major(version: str) -> int:
    """Parse 17 from "17.0.15" and 8 from "1.8.0_392"; 0 for a text that does not begin with a number."""
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match.group(1)) if match else 0


def _describe_advice() -> str:
    versions = " or ".join(str(major) for major in SUITABLE)
    homes = sorted(java.parents[1] for java in INSTALLED_UNDER.glob("*/bin/java"))
    fitting = next(
        (home for home in homes if _parse_major(_read_version(home / "bin" / "java") or "") in SUITABLE), None
    )
    if fitting is not None:
        return f"Firn's metastore and Spark need Java {versions}: set JAVA_HOME to {fitting}."
    return f"Firn's metastore and Spark need Java {versions}: install it ({HOW_TO_INSTALL}) or set JAVA_HOME to it."


def main() -> int:
    java = find_java()
    if isinstance(java, NoJava):
        sys.stderr.write(f"{java.reason}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
