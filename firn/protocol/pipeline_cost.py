"""What a run is predicted to read: incrementally, and in full. Server and optimizer decide by the same rule."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

SMALL_BYTES = 8 * 2**20
"""With `auto`, a run over fewer bytes of inputs and target is full: an incremental one takes more Spark jobs."""
UNPRUNED_SHARE = 0.5
"""The cost of the recomputation as a share of a full one, where all rows are read to find the affected ones."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """The bytes that either way reads, and which way is cheaper.

    `incremental_bytes` is None where full is cheaper in any case.
    """

    is_full: bool
    reason: str
    incremental_bytes: int | None
    full_bytes: int


def weigh_bytes(
    measured: Mapping[str, tuple[int, int]],
    changed: Collection[str],
    joined: Collection[str],
    target_bytes: int,
    *,
    prunes: bool,
) -> Weighed:
    """Compare the bytes that both ways read.

    `measured` has, for each input, the bytes of its changes and of all its rows. An incremental run reads the changes,
    the inputs `joined` with them at both states, and the rows to recompute; `prunes` if it need not read all for these.
    """
    total = sum(size for _, size in measured.values())
    full = total + target_bytes
    if full < SMALL_BYTES:
        reason = f"{format_bytes(full)} of inputs and target are cheaper to compute in full"
        return Weighed(True, reason, None, full)
    share = UNPRUNED_SHARE
    if prunes:
        share = max((measured[name][0] / measured[name][1] for name in changed if measured[name][1]), default=0.0)
    differing = sum(measured[name][0] for name in changed)
    partial = int(differing + 2 * sum(measured[name][1] for name in {*joined}) + min(share, 1.0) * total)
    words = f"predicted to read {format_bytes(partial)} incrementally, {format_bytes(full)} in full"
    return Weighed(partial > full, words, partial, full)


def format_bytes(count: int) -> str:
    """A number of bytes for people."""
    return f"{count / 2**20:,.0f} MiB" if count >= 2**20 else f"{count / 2**10:,.0f} KiB"
