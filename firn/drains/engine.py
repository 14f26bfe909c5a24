"""The engines of drains, and whether this program has what the light one needs."""

from __future__ import annotations

from enum import StrEnum
from importlib.util import find_spec

from firn.drains.errors import NeedsSpark


class Engine(StrEnum):
    """What runs a drain."""

    AUTO = "auto"  # light, and Spark where that one cannot
    LIGHT = "light"  # in this process, without Java
    SPARK = "spark"


def require_packages() -> None:
    """Raise NeedsSpark where packages are missing that the light engine needs."""
    packages = {"confluent_kafka": "confluent-kafka", "pyiceberg": "pyiceberg", "pyarrow": "pyarrow", "numpy": "numpy"}
    packages["fastavro"] = "fastavro"
    for module, package in packages.items():
        if find_spec(module) is None:
            raise NeedsSpark(f"{package} is not installed (pip install 'firn[kafka,scan]')", is_of_table=True)
