"""Java's static methods, where a class has methods of instances with the same name."""

from __future__ import annotations

import pytest

from firn.spark.java import call_static
from tests.spark_fixtures import shared_spark

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("number", "method"), [("Integer", "hashCode"), ("Short", "toString"), ("Byte", "toString")])
def test_a_static_method_is_called_beside_one_of_instances(number: str, method: str) -> None:
    """`toString()` belongs to instances, `toString(NUMBER)` is static. A JVM lists either of them first."""
    assert str(call_static(shared_spark(), f"java.lang.{number}", method, 7)) == "7"


def test_the_cache_of_staged_tables_is_found() -> None:
    cache = call_static(shared_spark(), "org.apache.iceberg.spark.SparkTableCache", "get")
    assert cache.contains("nothing") is False
