"""Whether a run may compute only what changed since a checkpoint, and if not, why (docs/protocols.md, rule 8.5)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from catalog.commits.positions import NO_POSITION
from catalog.names import TableName
from catalog.pipelines.pipeline import RESET, PipelineTable, StoredCheckpoint
from firn.protocol.pipeline_pins import InputPin


@dataclass(frozen=True, slots=True, kw_only=True)
class InputState:
    """An input as it is now, with the states that its history still has."""

    pin: InputPin
    readable: Collection[str]
    """The versions, or the snapshots, of its history from which changes can be read."""
    existing: Collection[str]
    """All versions, or snapshots, that it has; those that are not readable were rolled back."""
    keeps_columns: bool = True
    """Whether the columns of the checkpoint still have their names, ids and types."""


def explain_full(
    table: PipelineTable,
    position: str,
    checkpoint: StoredCheckpoint | None,
    inputs: Mapping[TableName, InputState],
    *,
    asked_full: bool,
) -> str | None:
    """Why the run has to compute all rows; None if it can go on from the checkpoint at the writer's position."""
    if position == NO_POSITION:
        return "the table has no checkpoint yet"
    if checkpoint is None:
        if position.startswith(RESET):
            return "somebody has reset the table, or dropped its pipeline"
        return "the table's checkpoint is forgotten"
    if checkpoint.fingerprint != table.definition.fingerprint:
        return "the query has changed since the checkpoint"
    if asked_full:
        return "somebody asked for all rows"
    pins = {TableName.parse(stored.pin.table): stored.pin for stored in checkpoint.pins}
    if set(pins) != set(inputs):
        return "the checkpoint has other inputs than the query"
    reasons = (_explain_input(pins[name], state) for name, state in inputs.items())
    return next((reason for reason in reasons if reason is not None), None)


def is_fallback(table: PipelineTable, position: str, checkpoint: StoredCheckpoint | None, *, asked_full: bool) -> bool:
    """Whether a full run is neither the first nor follows a reset, a new query or a request for it.

    A table whose policy is strict does not take it.
    """
    if asked_full or position == NO_POSITION or position.startswith(RESET):
        return False
    return checkpoint is None or checkpoint.fingerprint == table.definition.fingerprint


def _explain_input(pin: InputPin, state: InputState) -> str | None:
    """Why the changes of an input since its pin cannot be read; None if they can."""
    if (pin.table_uuid, pin.keyed) != (state.pin.table_uuid, state.pin.keyed):
        return f"{pin.table} was created again since the checkpoint"
    if pin.version is None:
        return None
    if not state.keeps_columns:
        return f"the columns of {pin.table} have changed since the checkpoint"
    if pin.version in state.readable:
        return None
    if pin.version in state.existing:
        return f"{pin.table} was rolled back since the checkpoint"
    kind = "version" if pin.keyed else "snapshot"
    return f"{kind} {pin.version} of {pin.table} has expired"
