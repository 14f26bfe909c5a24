"""Whether a run computes what changed, or all rows, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from firn.pipelines.plan import Access, Plan
from firn.protocol.pipeline_cost import weigh_bytes
from firn.protocol.pipeline_pins import TargetPins
from firn.protocol.pipelines import Refresh
from optimizer.errors import Refused
from optimizer.pipelines.inputs import PinnedInput


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
    plan: Plan,
    refresh: Refresh,
    pins: TargetPins,
    inputs: Mapping[str, PinnedInput],
    *,
    is_requested: bool,
    obstacle: str | None = None,
) -> Mode:
    """Decide what a run computes; raise Refused if it would be full, and the owner's policy is strict.

    The first build, and a run that a user asked to be full, are full under every policy. An `obstacle` keeps a run from
    following the changes.
    """
    if is_requested:
        return Mode(is_full=True, reason="asked for")
    if refresh is Refresh.FULL and pins.since is not None:
        return Mode(is_full=True, reason="refresh: full")
    no_checkpoint = pins.full_reason or "there is no checkpoint"
    reason = (_find_obstacle(plan, inputs) or obstacle) if pins.since is not None else no_checkpoint
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
    joined = {
        name
        for term in plan.terms
        if term.access is not Access.ROWS and set(term.inputs) & set(changed)
        for name in term.joined
    }
    weighed = weigh_bytes(measured, changed, joined, target_bytes, prunes=bool(plan.pruned_columns()))
    return Mode(weighed.is_full, weighed.reason, weighed.incremental_bytes, weighed.full_bytes)
