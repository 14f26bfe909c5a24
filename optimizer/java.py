"""Java's collections, as Python goes through them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession


def iterate(iterable: Any) -> Iterator[Any]:
    """The elements of any Java iterable: py4j makes only lists and sets iterable by itself."""
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


def to_java_strings(spark: SparkSession, values: Sequence[str]) -> Any:
    """Make a Java array of strings, for methods with variable arguments."""
    gateway: Any = spark.sparkContext._gateway
    array = gateway.new_array(gateway.jvm.java.lang.String, len(values))
    for index, value in enumerate(values):
        array[index] = value
    return array
