"""What the next run of a table does, by what the database and the metadata files tell: the rules of the optimizer.

The optimizer decides by the same facts when the run begins, and by the files of the inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from firn.protocol.pipeline_cost import weigh_bytes
from firn.protocol.pipeline_outputs import OutputMode
from firn.protocol.pipeline_plan import NextMode
from firn.protocol.pipelines import FullReason, Refresh, TableDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What decides about the next run of a table."""

    full_reason: str | None
    """Why the changes since the checkpoint cannot be told (docs/protocols.md, rule 8.5); None if they can."""
    is_fallback: bool
    """Whether a full run is neither the first nor follows a reset, a new query or a request for it."""
    changed: Collection[str]
    """The inputs that have changed since the checkpoint."""
    has_chunks: bool
    is_empty: bool
    """Whether the table has no snapshot."""
    measured: Mapping[str, tuple[int, int]]
    """The bytes of the changes and of all rows, by input."""
    target_bytes: int


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What the next run does, why, and what either way reads if that was weighed."""

    mode: NextMode
    reason: str | None = None
    incremental_bytes: int | None = None
    full_bytes: int | None = None


def plan_run(definition: TableDefinition, facts: RunFacts) -> RunPlan:
    """Decide what the next run of a table does, unless its request wants all rows."""
    goes_on = facts.full_reason is None
    if goes_on and not facts.changed and not facts.has_chunks:
        return RunPlan(NextMode.NOTHING, "no input has changed")
    if definition.output_mode is OutputMode.APPEND:
        return _plan_append(definition, facts)
    if goes_on and definition.refresh is Refresh.FULL:
        return RunPlan(NextMode.FULL, "refresh: full")
    reason = facts.full_reason or _explain_query(definition)
    if reason is not None and definition.refresh is Refresh.STRICT and (goes_on or facts.is_fallback):
        return RunPlan(
            NextMode.FAILS, f"refresh is strict, and the run would be full: {reason}. Run it with --full, or change it"
        )
    if reason is not None:
        return RunPlan(NextMode.FULL, reason)
    return _plan_changes(definition, facts)


def _plan_append(definition: TableDefinition, facts: RunFacts) -> RunPlan:
    if facts.full_reason is None:
        return RunPlan(NextMode.APPEND)
    if facts.is_empty:
        return RunPlan(NextMode.FULL, facts.full_reason)
    return RunPlan(
        NextMode.FAILS,
        f"the run cannot tell which rows of its streams are new: {facts.full_reason}. "
        f"`firn pipeline run --full` replaces the rows of {definition.name}",
    )


def _plan_changes(definition: TableDefinition, facts: RunFacts) -> RunPlan:
    key = {name.lower() for name in definition.key}
    if definition.output_mode is OutputMode.COLUMNS and not {*definition.scope} <= key:
        return RunPlan(NextMode.FULL, f"its scope {', '.join(definition.scope)} is not part of the key")
    if definition.refresh is not Refresh.AUTO:
        return RunPlan(NextMode.INCREMENTAL)
    changed = {*facts.changed}
    joined = {name for term in definition.terms if changed & {*term.inputs} for name in term.joined}
    weighed = weigh_bytes(facts.measured, changed, joined, facts.target_bytes, prunes=definition.prunes)
    if not definition.terms and weighed.incremental_bytes is not None:  # an older client has put the pipeline
        return RunPlan(
            NextMode.INCREMENTAL, "`firn pipeline put` lets Firn predict what it reads", full_bytes=weighed.full_bytes
        )
    mode = NextMode.FULL if weighed.is_full else NextMode.INCREMENTAL
    return RunPlan(mode, weighed.reason, weighed.incremental_bytes, weighed.full_bytes)


def _explain_query(definition: TableDefinition) -> str | None:
    """Why the query is full in each run; None if it is not."""
    if definition.incremental:
        return None
    return _explain(definition.reasons[0], definition.path) if definition.reasons else "the query must be full"


def _explain(reason: FullReason, path: str) -> str:
    place = reason.path or path
    place = place if reason.line is None else f"{place}, line {reason.line}"
    remedy = "" if reason.remedy is None else f". {reason.remedy}"
    return f"{reason.text} ({place}){remedy}"
