"""A session policy opens one table and nothing beside it; judged by a small reader of policies, as IAM reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from catalog.credentials.reach import Reach, S3Place
from catalog.credentials.session_policy import LONGEST_POLICY, build_session_name, build_session_policy

ORDERS = S3Place("lake", "wh/db/orders")


def a_policy(*places: S3Place, write: bool = False) -> Mapping[str, Any]:
    policy: Mapping[str, Any] = json.loads(build_session_policy(Reach.to(places or [ORDERS], write=write)))
    return policy


def allows(policy: Mapping[str, Any], action: str, resource: str, **context: str) -> bool:
    """Whether IAM would allow it by this policy: some statement names the action, the resource and the condition."""
    return any(
        statement["Effect"] == "Allow"
        and action in statement["Action"]
        and any(_like(pattern, resource) for pattern in statement["Resource"])
        and all(
            any(_like(pattern, context.get(key.replace("s3:", ""), "")) for pattern in patterns)
            for key, patterns in statement.get("Condition", {}).get("StringLike", {}).items()
        )
        for statement in policy["Statement"]
    )


def _like(pattern: str, text: str) -> bool:
    parts = re.findall(r"\$\{([*?$])\}|([*])|([?])|(.)", pattern, re.DOTALL)
    regex = "".join(re.escape(lit or char) if lit or char else ".*" if star else "." for lit, star, _, char in parts)
    return re.fullmatch(regex, text, re.DOTALL) is not None


def objects(key: str) -> str:
    return f"arn:aws:s3:::{key}"


def test_a_reader_reads_within_the_table_and_writes_nothing() -> None:
    policy = a_policy()
    assert allows(policy, "s3:GetObject", objects("lake/wh/db/orders/data/a.parquet"))
    for action in ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"):
        assert not allows(policy, action, objects("lake/wh/db/orders/data/a.parquet"))


def test_a_writer_writes_and_deletes_within_the_table() -> None:
    policy = a_policy(write=True)
    for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"):
        assert allows(policy, action, objects("lake/wh/db/orders/data/a.parquet"))


@pytest.mark.parametrize(
    "other",
    ["lake/wh/db/orders2/a", "lake/wh/db/order/a", "lake/wh/db/orders", "lake/wh/db", "lake2/wh/db/orders/a", "lake"],
)
def test_the_neighbours_of_a_table_stay_closed(other: str) -> None:
    policy = a_policy(write=True)
    actions = {action for statement in policy["Statement"] for action in statement["Action"]} - {"s3:ListBucket"}
    assert not any(allows(policy, action, objects(other)) for action in actions)


def test_lists_show_the_table_only() -> None:
    policy = a_policy()
    for prefix in ("wh/db/orders/", "wh/db/orders/data/"):
        assert allows(policy, "s3:ListBucket", objects("lake"), prefix=prefix)
    for prefix in ("", "wh/db/orders", "wh/db/orders2/", "wh/"):
        assert not allows(policy, "s3:ListBucket", objects("lake"), prefix=prefix)
    assert not allows(policy, "s3:ListBucket", objects("lake"))


@pytest.mark.parametrize("key", ["wh/*", "wh/t?", "wh/${aws:username}", "wh/$"])
def test_what_a_pattern_would_read_as_a_wildcard_stands_for_itself(key: str) -> None:
    policy = a_policy(S3Place("lake", key), write=True)
    assert allows(policy, "s3:GetObject", objects(f"lake/{key}/a"))
    for other in ("wh/db/orders", "wh/tx", "wh/alice", "wh/"):
        assert not allows(policy, "s3:GetObject", objects(f"lake/{other}/a"))
        assert not allows(policy, "s3:ListBucket", objects("lake"), prefix=f"{other}/")


def test_where_a_table_was_before_is_read_and_not_written() -> None:
    former = S3Place("lake", "old/orders")
    policy = json.loads(build_session_policy(Reach.to([ORDERS], [former], write=True)))
    assert allows(policy, "s3:GetObject", objects("lake/old/orders/a"))
    assert not allows(policy, "s3:DeleteObject", objects("lake/old/orders/a"))


def test_the_document_is_exactly_this() -> None:
    assert a_policy(write=True) == {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::lake/wh/db/orders/*"]},
            {
                "Effect": "Allow",
                "Action": ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"],
                "Resource": ["arn:aws:s3:::lake/wh/db/orders/*"],
            },
            {
                "Effect": "Allow",
                "Action": ["s3:ListBucket"],
                "Resource": ["arn:aws:s3:::lake"],
                "Condition": {"StringLike": {"s3:prefix": ["wh/db/orders/*"]}},
            },
        ],
    }


def test_a_policy_of_three_long_places_still_fits() -> None:
    places = [S3Place("lake", f"warehouse/{'x' * 80}/table-{number}") for number in range(3)]
    assert len(build_session_policy(Reach.to(places, write=True))) < LONGEST_POLICY


@pytest.mark.parametrize("principal", [None, "alice@example.com", "Ünï/ code" * 20])
def test_a_session_is_called_after_who_and_which_table(principal: str | None) -> None:
    name = build_session_name(principal, "db.orders")
    assert re.fullmatch(r"[\w+=,.@-]{2,64}", name, re.ASCII)
    assert name.endswith("=db.orders")
    assert principal != "alice@example.com" or "alice@example.com" in name


DUCKDBS = "0b9e7d35-5c3f-4c0e-9f10-2f1f9b3d7a11-deletes.parquet"


@pytest.mark.parametrize(
    ("name", "is_allowed"),
    [
        (DUCKDBS, True),
        (f"day=1/{DUCKDBS}", True),
        ("00000-5-0b9e7d35-5c3f-4c0e-9f10-2f1f9b3d7a11-00001-deletes.parquet", False),
        ("0b9e7d35-5c3f-4c0e-9f10-2f1f9b3d7a11.parquet", False),
        ("5c3f4c0e9f102f1f9b3d7a11-ff97ffed7743-b-0.parquet", False),
        (f"{DUCKDBS}.avro", False),
    ],
    ids=["DuckDB's", "in a partition", "Spark's", "a data file", "Firn's", "another file"],
)
def test_beside_data_files_only_position_deletes_of_duckdb_are_written(name: str, *, is_allowed: bool) -> None:
    reach = replace(Reach.to([ORDERS], write=True), position_deletes=(S3Place("lake", "wh/db/base"),))
    policy = json.loads(build_session_policy(reach))
    for action in ("s3:PutObject", "s3:DeleteObject"):
        assert allows(policy, action, objects(f"lake/wh/db/base/{name}")) == is_allowed


def test_position_deletes_beside_data_files_are_left_out_of_a_policy_that_is_too_long() -> None:
    reach = Reach.to([ORDERS], write=True)
    beside = tuple(S3Place("lake", f"wh/db/{number}{'x' * 500}") for number in range(4))
    assert build_session_policy(replace(reach, position_deletes=beside)) == build_session_policy(reach)
