"""How a pipeline writes a table: by upserts, by appends, by replacing rows, or only some columns of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from firn.protocol.base import Request


class OutputMode(StrEnum):
    """What a run does to the rows of its table."""

    UPSERT = "upsert"  # a table with a key: upserts and deletes
    OVERWRITE = "overwrite"  # a table without a key: rows that differ are replaced
    APPEND = "append"  # a table without a key: rows of new rows of streams are added, and nothing is ever removed
    COLUMNS = "columns"  # a table with a key that others fill: some columns of the rows that it has


class OnChange(StrEnum):
    """Whether `put` takes a changed query of a built table."""

    ASK = "ask"  # only with `rebuild`
    REBUILD = "rebuild"


class AuditMode(StrEnum):
    """What happens with the rows of a run whose validators have passed."""

    AUTO = "auto"  # they are committed
    HOLD = "hold"  # they wait until a user publishes or discards them


class StreamInput(Request):
    """An input of which a run reads the rows that were added, and never the whole table.

    Changed and deleted rows fail the run. With `skip_changes` it leaves them out.
    """

    table: Annotated[str, Field(min_length=1, max_length=1_020)]
    skip_changes: bool = False


def choose_mode(mode: OutputMode | None, key: Sequence[str]) -> OutputMode:
    """The mode of a table: the one that its definition names, or the usual one of a table with or without this key."""
    return mode or (OutputMode.UPSERT if key else OutputMode.OVERWRITE)


def explain_wrong_output(
    mode: OutputMode,
    *,
    key: Collection[str],
    columns: Collection[str],
    streams: Collection[str],
    inputs: Collection[str],
) -> tuple[str, str] | None:
    """What is wrong with these settings of a table, and what to do; None if they fit together."""
    if mode in (OutputMode.UPSERT, OutputMode.COLUMNS) and not key:
        return f"mode: {mode} needs a key", "name the key, or write mode: overwrite or append"
    if mode in (OutputMode.OVERWRITE, OutputMode.APPEND) and key:
        return f"mode: {mode} is for tables without a key", "remove the key, or write mode: upsert"
    if mode is OutputMode.APPEND and not streams:
        return "mode: append needs an input that is read as a stream", "write FROM STREAM t, or streams: [t]"
    if streams and mode is not OutputMode.APPEND:
        return f"mode: {mode} reads whole tables, and {_join(streams)} is a stream", "write mode: append"
    if unknown := [name for name in streams if name not in inputs]:
        return f"the stream {_join(unknown)} is no input of the query", f"it reads {_join(inputs)}"
    if (mode is OutputMode.COLUMNS) != bool(columns):
        return "mode: columns names the columns that the pipeline fills", "write mode: {columns: [a, b]}"
    if of_key := [name for name in columns if name in key]:
        return f"the key column {_join(of_key)} cannot be filled", "name other columns"
    return None


def _join(names: Collection[str]) -> str:
    return ", ".join(names)
