"""How a pipeline writes a table: `mode`, `streams`, `audit` and similar settings of `firn-pipeline.yml`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from firn.pipelines.errors import InvalidDefinition
from firn.protocol.pipeline_outputs import (
    AuditMode,
    OnChange,
    OutputMode,
    StreamInput,
    choose_mode,
    explain_wrong_output,
)
from firn.protocol.pipelines import MOST_COMMITS
from firn.yaml_reading import Section

_WORDS = tuple(str(mode) for mode in OutputMode if mode is not OutputMode.COLUMNS)


@dataclass(frozen=True)
class Output:
    """How a table is written. `mode` is None if nobody has chosen one; `columns` are those of the mode `columns`."""

    mode: OutputMode | None = None
    columns: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    skip_changes: bool = False
    on_change: OnChange | None = None
    audit: AuditMode | None = None
    max_commits: int | None = None
    """The new commits of the inputs that one run takes at most; None for all."""

    def list_streams(self) -> list[StreamInput]:
        """The streams as messages have them."""
        return [StreamInput(table=name, skip_changes=self.skip_changes) for name in self.streams]


PLAIN_OUTPUT = Output()


def read_output(section: Section) -> Output:
    """Read the settings of a table. Raises Invalid with the line of what is wrong."""
    mode, columns = _read_mode(section)
    on_change = read_on_change(section)
    streams, skip_changes = section.texts("streams"), section.flag("skip_changes")
    return Output(mode, columns, streams, skip_changes, on_change, read_audit(section), read_max_commits(section))


def read_on_change(section: Section) -> OnChange | None:
    """`on_change`, if the section has it."""
    if section.text("on_change") is None:
        return None
    return OnChange(section.choice("on_change", [str(choice) for choice in OnChange], "ask"))


def read_audit(section: Section) -> AuditMode | None:
    """`audit`, if the section has it."""
    if section.text("audit") is None:
        return None
    return AuditMode(section.choice("audit", [str(choice) for choice in AuditMode], "auto"))


def read_max_commits(section: Section) -> int | None:
    """`max_commits`, if the section has it. Raises Invalid for anything but a whole number from 1 on."""
    text = section.text("max_commits")
    if text is None:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,6}", text) or int(text) > MOST_COMMITS:
        raise section.field_error("max_commits", f"max_commits is a number from 1 to {MOST_COMMITS:,}")
    return int(text)


def _read_mode(section: Section) -> tuple[OutputMode | None, tuple[str, ...]]:
    if not section.has("mode"):
        return None, ()
    if section.is_text("mode"):
        return OutputMode(section.choice("mode", _WORDS, "upsert")), ()
    inner = section.section("mode")
    columns = () if inner is None else tuple(name.lower() for name in inner.texts("columns"))
    if inner is not None:
        inner.finish()
    if not columns:
        raise section.field_error("mode", "mode: columns names no columns", hint="write mode: {columns: [a, b]}")
    return OutputMode.COLUMNS, columns


def check_output(output: Output, key: Sequence[str], inputs: Sequence[str], line: int) -> None:
    """Raise InvalidDefinition if the settings of a table contradict each other."""
    mode = choose_mode(output.mode, key)
    wrong = explain_wrong_output(mode, key=key, columns=output.columns, streams=output.streams, inputs=inputs)
    if wrong is not None:
        raise InvalidDefinition(wrong[0], line=line, hint=wrong[1])
    if output.skip_changes and not output.streams:
        raise InvalidDefinition("skip_changes needs a stream", line=line, hint="write FROM STREAM t, or remove it")
