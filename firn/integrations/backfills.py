"""Backfills of a table on behalf of a scheduler: requested once, waited for, and canceled with their task."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, time

from firn.errors import FirnError, Invalid, NotFound, Refused
from firn.integrations.runs import POLL_SECONDS, build_key, find_table
from firn.integrations.steps import PATIENCE_SECONDS, Call, Json, Pause, Steps, call_patiently, quote_part, read_answer
from firn.protocol.backfills import CHUNK_SECONDS, BackfillOut, BackfillStatus
from firn.protocol.names import quote_name
from firn.protocol.pipelines import PipelineOut

_OPEN = tuple(status for status in BackfillStatus if status.is_open)


class BackfillFailed(FirnError):
    """A backfill that a task has requested did not compute all chunks. With `is_permanent` a retry would not help."""

    def __init__(self, message: str, backfill: BackfillOut, *, is_permanent: bool) -> None:
        super().__init__(message)
        self.backfill = backfill
        self.is_permanent = is_permanent


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillOrder:
    """What a task wants: the rows of a table that `where` selects computed again.

    `key` is the same in all attempts of one task, and `attempt` counts these from 1. An attempt takes over the backfill
    of an earlier one. It resumes it if it has failed, and requests another one if it was canceled.
    """

    pipeline: str
    table: str
    where: str
    chunks: int | None = None
    chunk_seconds: int = CHUNK_SECONDS
    beside: int | None = None
    key: str
    attempt: int = 1
    poll_seconds: float = POLL_SECONDS
    patience_seconds: float = PATIENCE_SECONDS


@dataclass(slots=True)
class TableBackfill:
    """The backfill of an order. `active` is the one that was requested and has not ended."""

    order: BackfillOrder
    active: BackfillOut | None = None
    starting: Call | None = field(default=None, init=False)
    """The request for a backfill of which no answer has come."""

    def steps(self) -> Steps[list[BackfillOut]]:
        """Request the backfill, and wait for its end. Raises BackfillFailed if it ends without all chunks."""
        path = f"/pipelines/{quote_part(self.order.pipeline)}"
        pipeline = read_answer(PipelineOut, (yield from self._call(Call("GET", path))))
        table = find_table(pipeline, self.order.table).name
        path = f"{path}/tables/{quote_part(table)}/backfills"
        backfill = yield from self._request(path, table)
        while backfill.status in _OPEN:
            yield Pause(self.order.poll_seconds)
            backfill = yield from self._read(Call("GET", f"{path}/{quote_part(backfill.id)}"))
        self.active = None
        check_backfill(backfill)
        return [backfill]

    def cancel_steps(self) -> Steps[None]:
        """Cancel the active backfill. Chunks that are committed stay."""
        try:
            if self.active is None and self.starting is not None:
                # Nobody knows whether the server got it. The same key gives that backfill, or one to cancel at once.
                self.active = read_answer(BackfillOut, (yield self.starting))
            if self.active is not None:
                yield from self._call(Call("POST", f"{self._path(self.active)}/cancel"))
        except (Refused, NotFound):
            return  # it has ended
        finally:
            self.active = self.starting = None

    def _request(self, path: str, table: str) -> Steps[BackfillOut]:
        for attempt in range(1, self.order.attempt + 1):
            self.starting = Call("POST", path, self._build_body(table, attempt))
            self.active = yield from self._read(self.starting)
            self.starting = None
            if self.active.status == BackfillStatus.FAILED and attempt < self.order.attempt:
                # Chunks that are done stay done. A triggerer that starts again may resume it once more.
                self.active = yield from self._read(Call("POST", f"{path}/{quote_part(self.active.id)}/resume"))
            if self.active.status != BackfillStatus.CANCELED:
                break
        assert self.active is not None  # noqa: S101 -- attempts count from 1
        return self.active

    def _build_body(self, table: str, attempt: int) -> dict[str, Json]:
        body = {
            "where": self.order.where,
            "chunks": self.order.chunks,
            "chunk_seconds": self.order.chunk_seconds,
            "beside": self.order.beside,
            "idempotency_key": build_key(self.order.key, table, "backfill", str(attempt)),
        }
        return {name: value for name, value in body.items() if value is not None}

    def _read(self, call: Call) -> Steps[BackfillOut]:
        return read_answer(BackfillOut, (yield from self._call(call)))

    def _call(self, call: Call) -> Steps[Json]:
        return (yield from call_patiently(call, self.order.patience_seconds))

    def _path(self, backfill: BackfillOut) -> str:
        parts = (quote_part(self.order.pipeline), quote_part(backfill.table), quote_part(backfill.id))
        return "/pipelines/{}/tables/{}/backfills/{}".format(*parts)


def check_backfill(backfill: BackfillOut) -> None:
    """Raise BackfillFailed if a backfill that has ended did not compute all chunks."""
    if backfill.status == BackfillStatus.FINISHED:
        return
    title = f"backfill {backfill.id} of {backfill.table}"
    chunks = f"{backfill.done} of {backfill.total} chunks are done"
    if backfill.status == BackfillStatus.CANCELED:
        raise BackfillFailed(f"{title} was canceled: {chunks}", backfill, is_permanent=False)
    reason = backfill.error or "the server gave no reason"
    raise BackfillFailed(f"{title} failed: {reason} ({chunks})", backfill, is_permanent=False)


def build_where(where: str | None, column: str | None, start: str | date | None, end: str | date | None) -> str:
    """The condition of a backfill: `where`, or a range of days of a column. Invalid without either, or with both."""
    is_range = column is not None or start is not None or end is not None
    if (where is not None) == is_range:
        raise Invalid("a backfill needs `where`, or `column`, `start` and `end`", hint="write one of both")
    if where is not None:
        return where
    if column is None:
        raise Invalid("column is missing", hint="a range has column, start and end")
    return build_range(column, start, end)


def build_range(column: str, start: str | date | None, end: str | date | None) -> str:
    """The condition of the days of a column from `start` on and before `end`. Invalid for times that are no days."""
    first, last = _read_day(start, "start"), _read_day(end, "end")
    if first >= last:
        raise Invalid(f"the range is empty: it ends at {last}, and begins at {first}")
    name = quote_name(column)
    return f"{name} >= DATE '{first}' AND {name} < DATE '{last}'"


def _read_day(value: str | date | None, name: str) -> date:
    """A day, or the midnight at which it begins, as the intervals of schedulers have it."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError as error:
        raise Invalid(f"{name} is no day: {value!r}", hint="write it as 2026-11-28") from error
    if moment is None:
        raise Invalid(f"{name} is missing", hint="a range has column, start and end")
    if not isinstance(moment, datetime):
        return moment
    if moment.time() != time.min:
        raise Invalid(f"{name} is in the middle of a day: {moment}", hint="write `where` for other ranges than days")
    return moment.date()


def summarize_backfill(backfill: BackfillOut) -> dict[str, Json]:
    """The facts of a backfill that a scheduler keeps, as JSON."""
    ended = backfill.ended_at
    return {
        "table": backfill.table,
        "pipeline": backfill.pipeline,
        "backfill_id": backfill.id,
        "where": backfill.where,
        "chunks": backfill.total,
        "done": backfill.done,
        "seconds": None if ended is None else (ended - backfill.created_at).total_seconds(),
    }
