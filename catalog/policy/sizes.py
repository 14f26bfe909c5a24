"""The limit below which a file counts as small."""

from __future__ import annotations

from catalog.policy.policy import Policy
from catalog.tables.relation import RelationKind

FULL_SHARE = 0.75
"""A change store's file with this share of the target counts as full (catalog.files.change_packing)."""


def small_file_bytes(policy: Policy, kind: RelationKind) -> int:
    """The size below which a file counts as small, by the rule of the job that packs it;
    compact for a change store.
    """
    if kind is RelationKind.CHANGE:
        return int(FULL_SHARE * policy["firn.compact.target-file-size"])
    return int(min(policy["firn.rewrite.small-file-size"], policy["firn.rewrite.target-file-size"] - 1))
