"""Rules for rewriting files of base in a layer: none is rewritten unless a test says so."""

from __future__ import annotations

from firn.protocol.tasks.merge import RewriteRule


def a_rule(*, large_share: float = 2, small_bytes: int = 0, most_bytes: int = 2**30) -> RewriteRule:
    return RewriteRule(
        large_share=large_share,
        small_bytes=small_bytes,
        most_bytes=most_bytes,
        target_bytes=2**20,
        codec="zstd",
        dictionary_bytes=2**19,
    )
