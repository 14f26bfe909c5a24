"""Java's collections and static methods, as Python reaches them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from py4j.java_gateway import JavaMember
from py4j.protocol import STATIC_PREFIX
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


def call_static(spark: SparkSession, class_name: str, method: str, *arguments: Any) -> Any:
    """Call a static method of a class that has methods of instances with the same name.

    py4j resolves `jvm.CLASS.METHOD` to the first method with that name. If that one belongs to instances, py4j says
    that METHOD does not exist. The order of methods differs between JVMs: class data sharing alone changes it.
    """
    gateway: Any = spark.sparkContext._gateway
    client = gateway._gateway_client  # noqa: SLF001 -- as py4j itself makes it
    return JavaMember(method, None, STATIC_PREFIX + class_name, client)(*arguments)
