"""What users import and run: client, command line, Spark helpers, and a metastore for one machine.

    client = firn.connect("http://127.0.0.1:8630")
    client.tables["db.orders"].start_job("merge")
    spark = firn.spark.session(client, app="load orders")

It imports nothing else of this repository. The distribution `firn` holds this package alone, so it can be installed
beside any Spark job.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firn.client import Client, connect
    from firn.errors import FirnError

__all__ = ["Client", "FirnError", "connect", "spark"]

_HOME = {"Client": "firn.client", "connect": "firn.client", "FirnError": "firn.errors"}


def __getattr__(name: str) -> Any:
    """Import on first use: `firn.spark` needs PySpark, which is an extra, and commands that need neither stay fast."""
    if name == "spark":
        return _spark()
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'firn' has no attribute {name!r}")


def _spark() -> ModuleType:
    try:
        return import_module("firn.spark")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise ModuleNotFoundError("firn.spark needs PySpark: pip install 'firn[spark]'", name=error.name) from error
