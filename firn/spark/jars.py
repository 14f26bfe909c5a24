"""The jar that teaches Spark Iceberg: by Maven coordinate, fetched once, then started from its file.

    builder.config(map={**spark_conf()})

`python -m firn.spark.jars` fetches it and prints the file.  Once it is there, sessions take the file (`spark.jars`) and
start without Ivy, also offline; before, they let Spark's own Ivy fetch it (`spark.jars.packages`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from firn.embedded.errors import EmbeddedError, JarsUnavailable
from firn.embedded.process import require_java
from firn.embedded.pyspark_jars import pyspark_jar

Coordinate: TypeAlias = tuple[str, str, str]
"""What Maven calls it: group, artifact, version."""
ICEBERG_RUNTIME: Coordinate = ("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0")
AWS_BUNDLE: Coordinate = ("org.apache.iceberg", "iceberg-aws-bundle", "1.12.0")
"""What Spark needs besides for files in S3."""
FETCH_SECONDS = 600


def packages() -> tuple[str, ...]:
    """What a session needs beyond PySpark's own jars, as Maven coordinates."""
    return (":".join(ICEBERG_RUNTIME),)


def ivy_settings_path() -> Path:
    """Settings that make Ivy ask Maven Central only."""
    return Path(__file__).with_name("ivysettings.xml")


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Where fetched jars are kept, for all checkouts of this user: below $XDG_CACHE_HOME or ~/.cache."""
    env = os.environ if environ is None else environ
    root = env.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "firn"


def local_jar(runtime: Coordinate = ICEBERG_RUNTIME) -> Path:
    """Where the runtime's file is once it was fetched.  It is moved there, so a file of that name is whole."""
    _, artifact, version = runtime
    return cache_dir() / "jars" / f"{artifact}-{version}.jar"


def spark_conf() -> dict[str, str]:
    """Settings that put the Iceberg runtime into a session, for the builder or for `spark-submit --conf`.

    Fetches nothing itself.
    """
    if local_jar().is_file():
        return {"spark.jars": str(local_jar())}
    return {
        "spark.jars.packages": ",".join(packages()),
        "spark.jars.ivySettings": str(ivy_settings_path()),
        "spark.jars.ivy": str(cache_dir() / "ivy"),
    }


def fetch(runtime: Coordinate = ICEBERG_RUNTIME) -> Path:
    """The runtime's file, fetched by the Ivy that PySpark brings if it is not there yet; Ivy compares checksums.

    Raises JarsUnavailable, with Ivy's own words, and leaves nothing half written.
    """
    jar = local_jar(runtime)
    if jar.is_file():
        return jar
    jar.parent.mkdir(parents=True, exist_ok=True)
    # Beside its final place, so that moving it there is one step, also when two processes fetch at once.
    with tempfile.TemporaryDirectory(dir=jar.parent) as scratch:
        said = run_ivy(
            *("-settings", str(ivy_settings_path())),
            *("-cache", str(cache_dir() / "ivy" / "cache")),
            *("-dependency", *runtime),
            *("-types", "jar"),
            *("-retrieve", f"{scratch}/[artifact]-[revision].[ext]"),
        )
        fetched = Path(scratch, jar.name)
        if not fetched.is_file():
            raise JarsUnavailable(
                f"Ivy did not fetch {':'.join(runtime)} into {jar.parent}. Is Maven Central reachable? "
                f"Its last words:\n{said}"
            )
        fetched.replace(jar)
    return jar


def run_ivy(*arguments: str) -> str:
    """Run Ivy; gives the end of what it said.  Whether it worked shows in the files, which are what is wanted."""
    command = [str(require_java().path), "-jar", str(pyspark_jar("ivy-*.jar")), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FETCH_SECONDS)
    except subprocess.TimeoutExpired:
        return f"(nothing after {FETCH_SECONDS} s)"
    return "\n".join((done.stdout + done.stderr).splitlines()[-15:])


def main() -> int:
    try:
        sys.stdout.write(f"{fetch()}\n")
    except EmbeddedError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
