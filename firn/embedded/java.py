"""Which Java the machine has, and whether Spark and the metastore can run on it.

Standard library only, and nothing else of Firn: `make setup` runs this file before anything is installed.
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
    """A Java that Spark and the metastore can run on."""

    path: Path
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoJava:
    """There is none that fits; `reason` says what was found instead and how to get one."""

    reason: str


def find_java(environ: Mapping[str, str] | None = None) -> Java | NoJava:
    """Look where Spark's own launcher looks: JAVA_HOME, else the search path.

    A suitable Java elsewhere on the machine is named in the advice but not taken: Spark would not take it either, and
    the metastore on one Java and Spark on another is a puzzle for later.
    """
    env = os.environ if environ is None else environ
    home = env.get("JAVA_HOME")
    if home:
        found = Path(home, "bin", "java")
        if not found.is_file():
            return NoJava(reason=f"JAVA_HOME is {home}, but there is no bin/java in it. {_advice()}")
    else:
        on_path = shutil.which("java", path=env.get("PATH"))
        if on_path is None:
            return NoJava(reason=f"No Java was found on the search path, and JAVA_HOME is not set. {_advice()}")
        found = Path(on_path)
    version = _version(found)
    if version is None:
        return NoJava(reason=f"{found} does not run as Java (it names no version). {_advice()}")
    if _major(version) not in SUITABLE:
        return NoJava(reason=f"{found} is Java {version}. {_advice()}")
    return Java(path=found, version=version)


def _version(java: Path) -> str | None:
    """The version that `java -version` prints, wherever in its output it does; None if it prints none."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    named = re.search(r'version "([^"]+)"', said.stderr + said.stdout)
    return named.group(1) if named else None


def _major(version: str) -> int:
    """17 of "17.0.15", 8 of "1.8.0_392", 0 of what does not begin with a number."""
    named = re.match(r"(?:1\.)?(\d+)", version)
    return int(named.group(1)) if named else 0


def _advice() -> str:
    wanted = " or ".join(str(major) for major in SUITABLE)
    homes = sorted(java.parents[1] for java in INSTALLED_UNDER.glob("*/bin/java"))
    fitting = next((home for home in homes if _major(_version(home / "bin" / "java") or "") in SUITABLE), None)
    if fitting is not None:
        return f"Firn's metastore and Spark need Java {wanted}; {fitting} is one: set JAVA_HOME to it."
    return f"Firn's metastore and Spark need Java {wanted}; install one ({HOW_TO_INSTALL}) or set JAVA_HOME to one."


def main() -> int:
    java = find_java()
    if isinstance(java, NoJava):
        sys.stderr.write(f"{java.reason}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
