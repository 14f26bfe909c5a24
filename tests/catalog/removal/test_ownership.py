"""Two ways to write a place that may be one place are taken for one."""

from __future__ import annotations

import pytest

from catalog.removal.drop import UsedLocation
from catalog.removal.ownership import explain_shared_location, list_used_locations

MAY_BE_ONE = [
    ("s3://b/db/t", "s3a://b//db/t/data"),
    ("s3://b/db/t", "s3n://b/db"),
    ("/wh/db/t", "file:/wh/db/t"),
    ("file:///wh/db/t", "file://localhost/wh//db/./t/x"),
    ("hdfs://nn:8020/wh/t", "hdfs://cluster/wh/t"),
    ("hdfs://nn:8020/wh/t", "viewfs:///wh/t/data"),
    ("abfss://c@a.dfs/wh/t", "abfs://c@a.dfs/wh/t"),
    ("file:///wh/a b", "file:///wh/a%20b/c"),
    ("file:///wh/a%2520b", "file:///wh/a%20b"),
    ("s3://b/wh/t/../u", "s3://b/wh/u/data"),
    ("hdfs://nn:8020/wh/t", "hdfs://cluster"),
    ("wasbs://c@a/wh/t", "wasb://c@b/wh"),
    ("/wh/db/t", "/wh/db/./t"),
    ("/wh/db/t", "/wh/x/../db/t/"),
]
APART = [
    ("s3://b/db/t", "s3://b/db/t2"),
    ("s3://b/db/t", "s3://c/db/t"),
    ("/wh/db/t", "s3://b/wh/db/t"),
    ("hdfs://nn/wh/t", "hdfs://nn/wh/tt"),
    ("/wh/db/t", "/wh/db/t-sibling/data"),
    ("/wh/db/t", "/wh/DB/t"),
]


@pytest.mark.parametrize(("one", "other"), MAY_BE_ONE)
def test_places_that_may_be_one_meet(one: str, other: str) -> None:
    assert explain_shared_location([one], [UsedLocation("x", other)]) is not None
    assert explain_shared_location([other], [UsedLocation("x", one)]) is not None


@pytest.mark.parametrize(("one", "other"), APART)
def test_places_that_lie_apart_do_not_meet(one: str, other: str) -> None:
    assert explain_shared_location([one], [UsedLocation("x", other)]) is None


def test_every_location_in_the_facts_of_an_operation_is_found() -> None:
    facts = {"a": 1, "b": ["s3://x/1", {"c": ("/y/2", None)}], "d": "no place"}
    assert [one.location for one in list_used_locations("it", facts)] == ["s3://x/1", "/y/2"]
