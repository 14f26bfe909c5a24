"""Pairs of directories that may, and that may not, be the same."""

from __future__ import annotations

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
