"""The Iceberg runtime jar for Spark: fetched once by its Maven coordinate, then loaded from its file.

    builder.config(map={**spark_conf()})

`python -m firn.spark.jars` fetches it and prints the file. After that, sessions load the file (`spark.jars`) and start
without Ivy, also offline. Before, Spark's own Ivy fetches the jar (`spark.jars.packages`).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from firn.embedded.errors import EmbeddedError, JarsUnavailable
from firn.embedded.jars import Coordinate, cache_dir, fetch_jar_set, run_ivy

ICEBERG_RUNTIME: Coordinate = ("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0")
AWS_BUNDLE: Coordinate = ("org.apache.iceberg", "iceberg-aws-bundle", "1.12.0")
"""The further jar that Spark needs for files in S3."""
KAFKA_CONNECTOR = Path(__file__).with_name("kafka-connector.xml")
"""The list of the jars with which Spark reads and writes Kafka's topics."""


def packages() -> tuple[str, ...]:
    """The Maven coordinates of the jars that a session needs beyond PySpark's own."""
    return (":".join(ICEBERG_RUNTIME),)


def ivy_settings_path() -> Path:
    """Settings that make Ivy ask Maven Central only."""
    return Path(__file__).with_name("ivysettings.xml")


def local_jar(runtime: Coordinate = ICEBERG_RUNTIME) -> Path:
    """The path of the fetched runtime. A file of this name is always complete, because a fetch moves it there."""
    _, artifact, version = runtime
    return cache_dir() / "jars" / f"{artifact}-{version}.jar"


def spark_conf(*, kafka: bool = False) -> dict[str, str]:
    """Settings that put the Iceberg runtime into a session, for the builder or for `spark-submit --conf`.

    With `kafka`, Spark's connector to Kafka too. The function fetches the connector's jars (8 MB) if they are missing,
    because Spark's own Ivy cannot resolve them, and raises JarsUnavailable if it cannot. Otherwise it fetches nothing.
    """
    jars = sorted(fetch_jar_set(KAFKA_CONNECTOR).glob("*.jar")) if kafka else []
    if local_jar().is_file():
        return {"spark.jars": ",".join(map(str, [local_jar(), *jars]))}
    settings = {
        "spark.jars.packages": ",".join(packages()),
        "spark.jars.ivySettings": str(ivy_settings_path()),
        "spark.jars.ivy": str(cache_dir() / "ivy"),
    }
    return settings | ({"spark.jars": ",".join(map(str, jars))} if jars else {})


def fetch(runtime: Coordinate = ICEBERG_RUNTIME) -> Path:
    """The runtime's file. If it is missing, PySpark's Ivy fetches it and compares checksums.

    Raises JarsUnavailable with Ivy's own message, and leaves no partial file.
    """
    jar = local_jar(runtime)
    if jar.is_file():
        return jar
    jar.parent.mkdir(parents=True, exist_ok=True)
    # In the same directory, so that the move is one step, also if two processes fetch at once.
    with tempfile.TemporaryDirectory(dir=jar.parent) as scratch:
        output = run_ivy(
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
                f"The end of Ivy's output:\n{output}"
            )
        fetched.replace(jar)
    return jar


def main() -> int:
    try:
        sys.stdout.write(f"{fetch()}\n")
    except EmbeddedError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
