"""The session policy that cuts a role down to one table."""

from __future__ import annotations

import json
import re
from typing import Any

from catalog.credentials.reach import Reach, S3Place

LONGEST_POLICY = 2_048
"""Characters that AssumeRole takes."""
READS = ("s3:GetObject",)
WRITES = ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts")


def build_session_policy(reach: Reach, *, partition: str = "aws") -> str:
    """A policy that allows reading and writing within reach, listing there, and nothing else."""
    statements = [_objects(READS, reach.read, partition)]
    if reach.write:
        statements.append(_objects(WRITES, reach.write, partition))
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


def _objects(actions: tuple[str, ...], places: tuple[S3Place, ...], partition: str) -> dict[str, Any]:
    resources = [f"arn:{partition}:s3:::{place.bucket}/{escape_key(place.directory)}*" for place in places]
    return {"Effect": "Allow", "Action": list(actions), "Resource": resources}


def escape_key(key: str) -> str:
    """A key in which nothing is a wildcard or a variable: a table at `s3://lake/*` would else reach every other."""
    return re.sub(r"[*?$]", r"${\g<0>}", key)


_UNSAID = re.compile(r"[^\w+=,.@-]", re.ASCII)


def build_session_name(principal: str | None, table: str) -> str:
    """What CloudTrail calls the session: who and which table, as far as 64 characters go."""
    who = _UNSAID.sub("-", principal or "anonymous")[:28]
    return f"firn={who}={_UNSAID.sub('-', table)[-30:]}"
