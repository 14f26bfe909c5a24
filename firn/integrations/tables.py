"""Waiting for a table on behalf of a scheduler: for rows that somebody commits, or for a pipeline to take them in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from firn.errors import Invalid, NotFound, ServerFault
from firn.integrations.runs import find_table
from firn.integrations.steps import (
    PATIENCE_SECONDS,
    Call,
    Json,
    Pause,
    Steps,
    call_patiently,
    quote_part,
    read_answer,
    read_items,
    read_time,
)
from firn.names import split_name
from firn.protocol.jobs import JobKind
from firn.protocol.names import join_name
from firn.protocol.pipelines import PipelineOut

_MAINTENANCE = frozenset(JobKind) - {JobKind.PIPELINE, JobKind.SYNC, JobKind.CONVERT}
"""Jobs that bring no rows to a table."""
_NEWEST_COMMITS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """The newest commit that brought rows to a table."""

    snapshot_id: str
    committed_at: datetime
    engine: str | None
    principal: str | None
    added_rows: Json
    removed_rows: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCondition:
    """What to wait for: rows of after `newer_than`, or of the last `fresh_within_seconds`, or any rows.

    Without a pipeline the newest commit counts that is no maintenance. With a pipeline the table is as new as the
    oldest commit to its inputs that it does not show; it is of now if it shows all of them.
    """

    catalog: str
    table: str
    newer_than: datetime | None = None
    fresh_within_seconds: float | None = None
    pipeline: str | None = None
    patience_seconds: float = PATIENCE_SECONDS

    def __post_init__(self) -> None:
        if self.newer_than is not None and self.newer_than.tzinfo is None:
            raise Invalid(f"{self.newer_than} has no zone", hint="write it with one, such as 2026-11-28T00:00:00Z")
        if self.newer_than is not None and self.fresh_within_seconds is not None:
            raise Invalid("newer_than and fresh_within are two conditions", hint="leave one of them out")

    @classmethod
    def read(cls, fields: Mapping[str, Json]) -> Self:
        """The condition from values of JSON. Invalid if its time is none."""
        text = fields.get("newer_than")
        try:
            newer_than = None if text is None else datetime.fromisoformat(text)
        except ValueError as error:
            raise Invalid(f"{text!r} is no time", hint="write it as 2026-11-28T00:00:00Z") from error
        return cls(**{**fields, "newer_than": newer_than})

    def steps(self) -> Steps[dict[str, Json] | None]:
        """The facts of the table as JSON if it satisfies the condition; None if not yet."""
        if self.pipeline is not None:
            return (yield from self._check_pipeline(self.pipeline))
        commit = yield from load_newest_commit(self.catalog, self.table, self.patience_seconds)
        if commit is None or not self._is_satisfied(commit.committed_at):
            return None
        return {"snapshot_id": commit.snapshot_id, "committed_at": commit.committed_at.isoformat()}

    def wait_steps(self, poll_seconds: float) -> Steps[dict[str, Json]]:
        """The facts of the table once it satisfies the condition."""
        while (facts := (yield from self.steps())) is None:
            yield Pause(poll_seconds)
        return facts

    def _check_pipeline(self, name: str) -> Steps[dict[str, Json] | None]:
        answer = yield from call_patiently(Call("GET", f"/pipelines/{quote_part(name)}"), self.patience_seconds)
        pipeline = read_answer(PipelineOut, answer)
        table = find_table(pipeline, self.table)
        if table.checkpoint is None or table.behind is None:
            return None
        now = datetime.now(UTC)
        complete_until = now if table.behind == 0 else table.behind_since
        if complete_until is None or not self._is_satisfied(complete_until, is_until=True):
            return None
        return {"checkpoint": table.checkpoint.get("id"), "complete_until": complete_until.isoformat()}

    def _is_satisfied(self, time: datetime, *, is_until: bool = False) -> bool:
        if self.fresh_within_seconds is not None:
            return time >= datetime.now(UTC) - timedelta(seconds=self.fresh_within_seconds)
        if self.newer_than is None:
            return True
        return time > self.newer_than or (is_until and time == self.newer_than)


def load_newest_commit(
    catalog: str, table: str, patience_seconds: float = PATIENCE_SECONDS
) -> Steps[TableCommit | None]:
    """The newest commit that brought rows to a table; None if there is none, or no such table yet."""
    path = f"/catalogs/{quote_part(catalog)}/tables/{quote_part(table)}/history"
    call = Call("GET", path, params={"kind": "data", "limit": _NEWEST_COMMITS})
    try:
        page = yield from call_patiently(call, patience_seconds)
    except NotFound:
        return None
    for entry in read_items(page):
        if not isinstance(entry, dict):
            raise ServerFault("the server's answer is not like Firn's: a commit is no object")
        if _brings_rows(entry):
            return TableCommit(
                snapshot_id=str(entry.get("snapshot_id")),
                committed_at=read_time(entry.get("committed_at")),
                **{name: entry.get(name) for name in ("engine", "principal", "added_rows", "removed_rows")},
            )
    return None


def _brings_rows(entry: Mapping[str, Json]) -> bool:
    return entry.get("operation") != "replace" and entry.get("job_kind") not in _MAINTENANCE


def split_table(name: str, catalog: str) -> tuple[str, ...]:
    """The parts of a table's full name, its catalog first. Invalid for a name without a namespace."""
    parts = split_name(name)
    if len(parts) < 2 or not all(parts):
        raise Invalid(f"{name!r} names no table", hint="write NAMESPACE.TABLE")
    return (catalog, *parts)


def full_name(name: str) -> str:
    """NAMESPACE.TABLE as the server writes it."""
    return join_name(split_name(name))
