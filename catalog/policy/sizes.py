"""What counts as a small file."""

from __future__ import annotations

from catalog.policy.policy import Policy
from catalog.tables.relation import RelationKind

FULL_SHARE = 0.75
"""A file of a change store that has this share of the target is as good as full (optimizer.packing)."""


def small_file_bytes(policy: Policy, kind: RelationKind) -> int:
    """Below this a file counts as small: as the job that packs such files has it, compact for a change store."""
    if kind is RelationKind.CHANGE:
        return int(FULL_SHARE * policy["firn.compact.target-file-size"])
    return int(min(policy["firn.rewrite.small-file-size"], policy["firn.rewrite.target-file-size"] - 1))
