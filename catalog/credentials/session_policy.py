"""The session policy that limits a role to one table."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from catalog.credentials.reach import Reach, S3Place

LONGEST_POLICY = 2_048
"""The limit of AssumeRole, in characters."""
READS = ("s3:GetObject",)
WRITES = ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts")


POSITION_DELETES = f"*{'-'.join('?' * length for length in (8, 4, 4, 4, 12))}-deletes.parquet"
"""The names of DuckDB's files of position deletes: a UUID. No file that another engine or Firn writes is named so."""


def build_session_policy(reach: Reach, *, partition: str = "aws") -> str:
    """A policy that only allows reading and writing within reach, and listing there.

    Position deletes beside data files are left out if the policy would be too long with them.
    """
    policy = _build_policy(reach, partition)
    if len(policy) > LONGEST_POLICY and reach.position_deletes:
        return _build_policy(replace(reach, position_deletes=()), partition)
    return policy


def _build_policy(reach: Reach, partition: str) -> str:
    statements = [_build_statement(READS, reach.read, partition)]
    if reach.write:
        statements.append(_build_statement(WRITES, reach.write, partition))
    if reach.position_deletes:
        statements.append(
            _build_statement(("s3:PutObject", "s3:DeleteObject"), reach.position_deletes, partition, POSITION_DELETES)
        )
    for bucket in reach.buckets:
        prefixes = [f"{escape_key(place.directory)}*" for place in reach.read if place.bucket == bucket]
        statements.append(
            {
                "Effect": "Allow",
                "Action": ["s3:ListBucket"],
                "Resource": [f"arn:{partition}:s3:::{bucket}"],
                "Condition": {"StringLike": {"s3:prefix": prefixes}},
            }
        )
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def _build_statement(
    actions: tuple[str, ...], places: tuple[S3Place, ...], partition: str, names: str = "*"
) -> dict[str, Any]:
    resources = [f"arn:{partition}:s3:::{place.bucket}/{escape_key(place.directory)}{names}" for place in places]
    return {"Effect": "Allow", "Action": list(actions), "Resource": resources}


def escape_key(key: str) -> str:
    """A key without wildcards and variables: a table at `s3://lake/*` would otherwise reach every other."""
    return re.sub(r"[*?$]", r"${\g<0>}", key)


_FORBIDDEN_CHARACTERS = re.compile(r"[^\w+=,.@-]", re.ASCII)


def build_session_name(principal: str | None, table: str) -> str:
    """The session's name for CloudTrail: principal and table, cut to 64 characters."""
    caller = _FORBIDDEN_CHARACTERS.sub("-", principal or "anonymous")[:28]
    return f"firn={caller}={_FORBIDDEN_CHARACTERS.sub('-', table)[-30:]}"
