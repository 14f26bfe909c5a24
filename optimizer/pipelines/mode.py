"""Whether a run computes what changed, or all rows, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from firn.pipelines.plan import Access, Plan
from firn.protocol.pipelines import Refresh, TargetPins
from optimizer.errors import Refused
from optimizer.pipelines.inputs import PinnedInput

SMALL_BYTES = 32 * 2**20
"""With `auto`, a run over fewer bytes of inputs and target is full: an incremental one takes more Spark jobs."""
UNPRUNED_SHARE = 0.5
"""The cost of the recomputation as a share of a full one, where all rows are read to find the affected ones."""


@dataclass(frozen=True)
class Mode:
    """How a run computes. `reason` says why it is full, and is None for an incremental one that was not weighed.

    The bytes are what either way was predicted to read; None if they were not compared.
    """

    is_full: bool
    reason: str | None = None
    incremental_bytes: int | None = None
    full_bytes: int | None = None


def choose_mode(
    plan: Plan, refresh: Refresh, pins: TargetPins, inputs: Mapping[str, PinnedInput], *, asked: bool
) -> Mode:
    """Decide what a run computes; raise Refused if it would be full, and the owner's policy is strict.

    The first build, and a run that a user asked to be full, are full under every policy.
    """
    if asked:
        return Mode(is_full=True, reason="asked for")
    if refresh is Refresh.FULL and pins.since is not None:
        return Mode(is_full=True, reason="refresh: full")
    no_checkpoint = pins.full_reason or "there is no checkpoint"
    reason = _find_obstacle(plan, inputs) if pins.since is not None else no_checkpoint
    if reason is None:
        return Mode(is_full=False)
    if refresh is Refresh.STRICT and (pins.since is not None or pins.is_fallback):
        raise Refused(
            f"refresh is strict, and the run would be full: {reason}. Run it with --full, or change the query"
        )
    return Mode(is_full=True, reason=reason)


def _find_obstacle(plan: Plan, inputs: Mapping[str, PinnedInput]) -> str | None:
    if not plan.is_incremental:
        return str(plan.reasons[0]) if plan.reasons else "the query cannot be computed incrementally"
    columns = plan.read_columns()
    for name, pinned in inputs.items():
        if (obstacle := pinned.find_obstacle(columns[name])) is not None:
            return obstacle
    return None


def weigh(plan: Plan, measured: Mapping[str, tuple[int, int]], changed: Sequence[str], target_bytes: int) -> Mode:
    """Compare the bytes that both ways read, with `auto`. `measured` has those of each input, as it measures them."""
    total = sum(whole for _, whole in measured.values())
    full = total + target_bytes
    if full < SMALL_BYTES:
        reason = f"{_show(full)} of inputs and target are cheaper to compute in full"
        return Mode(is_full=True, reason=reason, full_bytes=full)
    partial = _estimate_partial(plan, measured, changed)
    words = f"predicted to read {_show(partial)} incrementally, {_show(full)} in full"
    return Mode(partial > full, words, incremental_bytes=partial, full_bytes=full)


def _estimate_partial(plan: Plan, measured: Mapping[str, tuple[int, int]], changed: Sequence[str]) -> int:
    """Bytes of an incremental run: the changes, the inputs that terms join at both states, and the recomputation."""
    differing = sum(measured[name][0] for name in changed)
    joined = {
        name
        for term in plan.terms
        if term.access is not Access.ROWS and set(term.inputs) & set(changed)
        for name in term.joined
    }
    share = UNPRUNED_SHARE
    if plan.pruned_columns():
        share = max((measured[name][0] / measured[name][1] for name in changed if measured[name][1]), default=0.0)
    total = sum(whole for _, whole in measured.values())
    return int(differing + 2 * sum(measured[name][1] for name in joined) + min(share, 1.0) * total)


def _show(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB" if count >= 2**20 else f"{count / 2**10:,.0f} KiB"
