"""Writes the keys that a check suggests as the file that `--keys` reads."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from firn.cli.context import CliContext
from firn.errors import Invalid
from firn.protocol.answers.operations import OperationOut

_TRUSTED = ("declared", "likely")
_HEADING = ("table", "primary_key", "sequence_field")


def write_suggested_keys(ctx: CliContext, operations: Sequence[OperationOut], path: Path) -> None:
    """Write a line for each table with a likely key, and say how many tables have none.

    Raises Invalid if the file exists: somebody may have corrected it.
    """
    eligible = [operation for operation in operations if operation.outcome == "eligible"]
    keys = {operation.target: _choose_key(operation) for operation in eligible}
    lines = [(table, ",".join(key), "") for table, key in sorted(keys.items()) if key]
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([_HEADING, *lines])
    except FileExistsError as error:
        raise Invalid(f"{path} exists already", hint="remove it, or give another name") from error
    except OSError as error:
        raise Invalid(f"cannot write {path}: {error.strerror}", hint="give the path of a new file") from error
    ctx.show.note(
        f"{path} has the likely keys of {len(lines):,} tables; read them before you upgrade with --keys {path}"
    )
    if len(lines) < len(eligible):
        ctx.show.note(f"{len(eligible) - len(lines):,} tables have no likely key: with --keys they become plain tables")


def _choose_key(operation: OperationOut) -> Sequence[str]:
    suggestions = operation.result.get("key_suggestions", ())
    return next((key["columns"] for key in suggestions if key["confidence"] in _TRUSTED), ())
