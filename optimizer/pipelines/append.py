"""Runs of tables to which rows are appended: new rows of streams add rows, and nothing changes or removes others."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.pipelines.append_queries import check_append
from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.parsing import parse_query
from firn.protocol.pipeline_outputs import StreamInput
from firn.protocol.pipeline_pins import TargetPins
from firn.protocol.pipelines import TableDefinition
from optimizer.errors import Refused
from optimizer.pipelines.computing import Computing
from optimizer.pipelines.mode import Mode
from optimizer.pipelines.streams import read_new_rows
from optimizer.pipelines.target import PipelineTarget


def choose_append_mode(
    definition: TableDefinition, target: PipelineTarget, pins: TargetPins, *, is_requested: bool
) -> Mode:
    """Whether a run replaces all rows, which only a user decides: they may be more than its inputs have now.

    Raises Refused if the new rows cannot be told and nobody has asked for all rows, or if the query cannot append.
    """
    try:  # what the server stores is what a user sent
        check_append(parse_query(definition.query), [stream.table for stream in definition.streams])
    except InvalidDefinition as problem:
        raise Refused(f"{definition.path}: {problem.message}") from problem
    if is_requested:
        return Mode(is_full=True, reason="asked for")
    if pins.since is not None:
        return Mode(is_full=False)
    reason = pins.full_reason or "there is no checkpoint"
    if not target.is_empty:
        raise Refused(
            f"{target.path} has rows, and the run cannot tell which rows of its streams are new: {reason}. "
            "`firn pipeline run --full` replaces the rows by those of all rows that the inputs have now"
        )
    return Mode(is_full=True, reason=reason)


def compute_new_rows(
    computing: Computing, streams: Sequence[StreamInput], changed: Collection[str]
) -> DataFrame | None:
    """The rows of the query over the new rows of its streams; None if no stream has changed.

    Other inputs are read at the new pins. Raises Refused for rows of a stream that were changed or deleted.
    """
    if not any(stream.table in changed for stream in streams):
        return None
    columns, new = computing.plan.read_columns(), {}
    for stream in streams:
        pinned, names = computing.inputs[stream.table], columns[stream.table]
        names = names or tuple(pinned.read_new().columns[:1])
        is_changed = stream.table in changed
        nothing = pinned.read_new().where(F.lit(False))
        new[stream.table] = read_new_rows(stream, pinned, names) if is_changed else nothing
    return computing.compute_full(new)
