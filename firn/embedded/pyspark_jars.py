"""The jars that PySpark brings: Spark, Hive's metastore with Derby, Ivy."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from firn.embedded.errors import PySparkMissing


def require_pyspark(needed_by: str) -> None:
    """Raise PySparkMissing, which names what needs it, where firn-server was installed without its extra `spark`.

    Commands call it before they import a module that imports PySpark's gateway to Java.
    """
    if find_spec("pyspark") is None or find_spec("py4j") is None:
        raise PySparkMissing(
            f"{needed_by} needs PySpark, which is not installed. Install it: pip install 'firn-server[spark]'"
        )


def pyspark_jars() -> Path:
    """The directory of PySpark's jars; raises PySparkMissing where the extra was not installed.

    Found without importing PySpark, which takes longer than all the rest of a command.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise PySparkMissing("PySpark's jars are not installed. Install them: pip install 'firn[spark]'")
    return Path(spec.origin).parent / "jars"


def pyspark_jar(pattern: str) -> Path:
    """The one jar of that name, such as `ivy-*.jar`; raises PySparkMissing if this PySpark does not bring it."""
    found = sorted(pyspark_jars().glob(pattern))
    if not found:
        raise PySparkMissing(f"{pyspark_jars()} holds no {pattern}: this PySpark is incomplete; install it again.")
    return found[0]
