"""The jars in PySpark: Spark, Hive's metastore with Derby, and Ivy."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from firn.embedded.errors import PySparkMissing


def require_pyspark(needed_by: str) -> None:
    """Raise PySparkMissing, which names the command, if firn-server is installed without its extra `spark`.

    Commands call it before they import a module that imports PySpark's gateway to Java.
    """
    if find_spec("pyspark") is None or find_spec("py4j") is None:
        raise PySparkMissing(
            f"{needed_by} needs PySpark, which is not installed. Install it: pip install 'firn-server[spark]'"
        )


def pyspark_jars() -> Path:
    """The directory of PySpark's jars; raise PySparkMissing without the extra.

    The function does not import PySpark, which takes longer than the rest of a command.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise PySparkMissing("PySpark's jars are not installed. Install them: pip install 'firn[spark]'")
    return Path(spec.origin).parent / "jars"


def pyspark_jar(pattern: str) -> Path:
    """The jar of that name, such as `ivy-*.jar`; raise PySparkMissing if this PySpark lacks it."""
    jars = sorted(pyspark_jars().glob(pattern))
    if not jars:
        raise PySparkMissing(f"{pyspark_jars()} has no {pattern}: PySpark is incomplete. Install it again.")
    return jars[0]
