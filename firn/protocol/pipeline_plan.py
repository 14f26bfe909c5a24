"""What the next runs of a pipeline's tables would do: `firn pipeline plan --analyze`."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from firn.protocol.base import Open, Out, Request

_Name = Annotated[str, Field(min_length=1, max_length=1_020)]
_Names = Annotated[list[_Name], Field(max_length=100)]


class QueryTerm(Request):
    """How a query finds the values that changes of some inputs affect; a part of the planner's verdict.

    `joined` are the inputs that a run reads at both states for this; none if the changed rows tell the values. `text`
    says it for people.
    """

    inputs: _Names
    joined: _Names = []
    text: Annotated[str, Field(max_length=4_000)] = ""


class NextMode(StrEnum):
    """What the next run of a table does."""

    INCREMENTAL = "incremental"  # it computes what the changes affect
    FULL = "full"  # it computes all rows
    APPEND = "append"  # it adds the rows of new rows of streams
    NOTHING = "nothing"  # no input has changed
    FAILS = "fails"  # it would be refused


class InputPlanOut(Out):
    """An input, and its changes since the checkpoint. None where nothing is known, as of a table that is not built.

    `commits` counts all commits since the checkpoint; of an input with a key, those that change rows. `files`, `bytes`
    and `rows` are those that these commits added and removed, as their summaries count them. A row that a commit
    updates counts twice if the writer has written its file again.
    """

    table: str
    is_changed: bool | None
    terms: list[str]
    changed_at: datetime | None = None
    commits: int | None = None
    files: int | None = None
    bytes: int | None = None
    rows: int | None = None
    total_bytes: int | None = None


class RunPlanOut(Out):
    """What the next run of a table does, and why.

    `blocked` says why no run can begin now. `chunks` says that the run computes a part of a backfill, too. The bytes
    are predictions; `predicted_seconds` is how long the run takes at most by the runs before it, and `full_seconds` how
    long the last full run took.
    """

    table: str
    mode: Open[NextMode]
    reason: str | None
    refresh: str
    key: list[str]
    scope: list[str]
    inputs: list[InputPlanOut]
    since: datetime | None
    chunks: bool = False
    max_commits: int | None = None
    blocked: str | None = None
    incremental_bytes: int | None = None
    full_bytes: int | None = None
    predicted_seconds: float | None = None
    full_seconds: float | None = None


class PipelinePlanOut(Out):
    """The next runs of a pipeline's tables, each after those that it reads."""

    pipeline: str
    version: int
    at: datetime
    tables: list[RunPlanOut]
