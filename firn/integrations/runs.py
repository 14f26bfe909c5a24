"""Runs of a pipeline's tables on behalf of a scheduler: started once, waited for, and canceled with their task.

A scheduler's worker may die at any point, and its triggerer may start again. So every request for a run carries an
idempotency key that the task's attempt determines: whoever comes back gets the same run, and starts no second one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from firn.errors import FirnError, Invalid, NotFound, Refused
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
from firn.pipeline_client import is_final
from firn.protocol.jobs import JobStatus
from firn.protocol.pipelines import PipelineOut, PipelineTableOut, RunOut

POLL_SECONDS = 5.0
FACTS = (
    *("mode", "reason", "written", "unchanged", "deleted", "dropped", "keys", "commits_left"),
    *("incremental_bytes", "full_bytes", "snapshot_id", "checkpoint"),
)
"""The entries of a run's result that schedulers keep."""


class RunFailed(FirnError):
    """A run that a task has started committed nothing. With `is_permanent` another attempt would not help."""

    def __init__(self, message: str, run: RunOut, *, is_permanent: bool) -> None:
        super().__init__(message)
        self.run = run
        self.is_permanent = is_permanent


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """What a task wants: runs of these tables of a pipeline, or of all of them, each after those that it reads.

    `key` is the same in all attempts of one task, and `attempt` counts these from 1. An attempt takes over the run of
    an earlier one unless that has failed.
    """

    pipeline: str
    tables: tuple[str, ...] = ()
    full: bool = False
    to: str | None = None
    key: str
    attempt: int = 1
    waits_for_approval: bool = True
    poll_seconds: float = POLL_SECONDS
    patience_seconds: float = PATIENCE_SECONDS


@dataclass(slots=True)
class PipelineRun:
    """The runs of an order. `active` is the one that has been started and has not ended."""

    order: RunOrder
    active: RunOut | None = None
    starting: Call | None = field(default=None, init=False)
    """The request for a run of which no answer has come."""

    def steps(self) -> Steps[list[RunOut]]:
        """Run the tables one after the other. Raises RunFailed for the first one that fails."""
        pipeline = read_answer(PipelineOut, (yield from self._call(Call("GET", self._path()))))
        runs = []
        for table in list_subjects(pipeline, self.order.tables):
            runs.append((yield from self._run_table(table)))  # noqa: PERF401 -- comprehensions cannot yield
        return runs

    def cancel_steps(self) -> Steps[None]:
        """Cancel the active run. It may have committed, which nobody can undo."""
        try:
            if self.active is None and self.starting is not None:
                # Nobody knows whether the server got it. The same key gives that run, or one that is canceled at once.
                self.active = read_answer(RunOut, (yield self.starting))
            if self.active is not None and not is_final(self.active):
                yield from self._call(Call("POST", f"/jobs/{quote_part(self.active.job_id)}/cancel"))
        except (Refused, NotFound):
            return  # it has ended, or commits
        finally:
            self.active = self.starting = None

    def _run_table(self, table: str) -> Steps[RunOut]:
        for attempt in range(1, self.order.attempt + 1):
            run = yield from self._start(table, attempt)
            has_failed = is_final(run) and run.status != JobStatus.SUCCEEDED
            if not has_failed or attempt == self.order.attempt:
                break
        run = yield from self._wait(run)
        check_result(run)
        if run.result.get("held"):
            yield from self._wait_for_approval(run)
        return run

    def _start(self, table: str, attempt: int) -> Steps[RunOut]:
        """The run of an attempt. It waits while a run of somebody else is active, such as one that a commit started."""
        body = {
            "table": table,
            "full": self.order.full,
            "to": self.order.to,
            "idempotency_key": build_key(self.order.key, table, str(attempt)),
        }
        refusals = 0
        while True:
            self.starting = Call("POST", self._path("/runs"), body)
            try:
                self.active = read_answer(RunOut, (yield from self._call(self.starting)))
            except Refused as error:
                self.starting = None
                is_active = error.code == "conflict" and (yield from self._has_active_run(table))
                refusals = 0 if is_active else refusals + 1
                if (
                    error.code != "conflict" or refusals > 1
                ):  # the first refusal may be because of a run that just ended
                    raise
                yield Pause(self.order.poll_seconds if is_active else 0)
                continue
            self.starting = None
            return self.active

    def _has_active_run(self, table: str) -> Steps[bool]:
        page = yield from self._call(Call("GET", self._path("/runs"), params={"table": table, "limit": 1}))
        return any(not is_final(read_answer(RunOut, document)) for document in read_items(page))

    def _wait(self, run: RunOut) -> Steps[RunOut]:
        path = self._path(f"/runs/{quote_part(run.job_id)}")
        while not is_final(run):
            yield Pause(self.order.poll_seconds)
            run = read_answer(RunOut, (yield from self._call(Call("GET", path))))
        self.active = None
        return run

    def _wait_for_approval(self, run: RunOut) -> Steps[None]:
        """Wait until a user publishes the rows of a run. RunFailed if the user discards them."""
        if not self.order.waits_for_approval:
            raise RunFailed(
                f"the rows of {run.table} wait for approval: publish or discard run {run.job_id}",
                run,
                is_permanent=True,
            )
        while True:
            pipeline = read_answer(PipelineOut, (yield from self._call(Call("GET", self._path()))))
            table = find_table(pipeline, run.table)
            if table.held_run is None or table.held_run.job_id != run.job_id:
                break
            yield Pause(self.order.poll_seconds)
        if not _is_at_least_as_new(table, run):
            raise RunFailed(f"the rows of {run.table} were discarded (run {run.job_id})", run, is_permanent=True)

    def _call(self, call: Call) -> Steps[Json]:
        return (yield from call_patiently(call, self.order.patience_seconds))

    def _path(self, part: str = "") -> str:
        return f"/pipelines/{quote_part(self.order.pipeline)}{part}"


def build_key(*parts: str) -> str:
    """A key from names that may have any characters and any length."""
    digest = hashlib.sha256()
    for part in parts:
        text = part.encode("utf-8", "surrogatepass")
        digest.update(len(text).to_bytes(8, "big") + text)
    return f"firn-{digest.hexdigest()}"


def list_subjects(pipeline: PipelineOut, names: Sequence[str] = ()) -> list[str]:
    """The tables to run, in the order of their inputs: of tables that move together one, which runs all of them."""
    wanted = [find_table(pipeline, name).name for name in names] if names else [table.name for table in pipeline.tables]
    subjects, done = [], set[str]()
    for table in pipeline.tables:
        if table.name in wanted and table.name not in done:
            subjects.append(table.name)
            done |= {table.name, *list_together(table.definition)}
    return subjects


def list_together(definition: Mapping[str, object]) -> list[str]:
    """The tables that one run computes with a table, that one among them if there are several."""
    together = definition.get("consistent")
    return [str(name) for name in together] if isinstance(together, list) else []


def find_table(pipeline: PipelineOut, name: str) -> PipelineTableOut:
    parts = tuple(part.casefold() for part in split_name(name))
    matching = [
        table
        for table in pipeline.tables
        if parts in ((folded := tuple(part.casefold() for part in split_name(table.name))), folded[-1:])
    ]
    if not matching:
        names = ", ".join(table.name for table in pipeline.tables)
        raise NotFound(f"pipeline {pipeline.name} has no table {name}", hint=f"it has {names}")
    if len(matching) > 1:
        raise Invalid(f"{name} may be {' or '.join(table.name for table in matching)}", hint="write NAMESPACE.TABLE")
    return matching[0]


def check_result(run: RunOut) -> None:
    """Raise RunFailed, with what its validators found, if a run that has ended committed nothing."""
    if run.status == JobStatus.SUCCEEDED:
        return
    title = f"run {run.job_id} of {run.table}"
    if run.status == JobStatus.CANCELED:
        raise RunFailed(f"{title} was canceled", run, is_permanent=False)
    violations = describe_violations(run.result)
    lines = [f"{title} failed: {run.error or 'its optimizer gave no reason'}", *violations]
    raise RunFailed("\n".join(lines), run, is_permanent=bool(violations))


def describe_violations(result: Mapping[str, Json]) -> list[str]:
    """A line for each validator that the rows of a run do not satisfy, those of all its tables included."""
    results = [result, *_read_dicts(result.get("together"))]
    checks = [check for part in results for check in _read_dicts(part.get("validators"))]
    return [_describe(check) for check in checks if check.get("passed") is False and check.get("severity") == "fail"]


def _describe(check: Mapping[str, Json]) -> str:
    count = check.get("violations")
    rows = "" if count is None else f": {count} rows"
    detail = f" ({check['detail']})" if check.get("detail") else ""
    examples = check.get("examples")
    example = f", such as {examples[0]}" if isinstance(examples, list) and examples else ""
    return f"validator {check.get('name')}{rows}{detail}{example}"


def _read_dicts(value: Json) -> list[Mapping[str, Json]]:
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [entry for entry in values if isinstance(entry, dict)]


def _is_at_least_as_new(table: PipelineTableOut, run: RunOut) -> bool:
    """Whether readers of the table see the rows of a held run, or those of a later one."""
    pinned_at = (table.checkpoint or {}).get("pinned_at")
    if pinned_at is None or run.leased_at is None:
        return False
    return read_time(pinned_at) >= run.leased_at


def summarize_run(run: RunOut) -> dict[str, Json]:
    """The facts of a run that a scheduler keeps, as JSON: rows, cost and time of the run."""
    seconds = None
    if run.leased_at is not None and run.ended_at is not None:
        seconds = (run.ended_at - run.leased_at).total_seconds()
    return {
        "table": run.table,
        "pipeline": run.pipeline,
        "run_id": run.job_id,
        "seconds": seconds,
        "predicted_seconds": run.predicted_seconds,
        **{name: run.result.get(name) for name in FACTS},
        "together": [
            {"table": name, **{fact: result.get(fact) for fact in FACTS}}
            for name, result in (run.result.get("together") or {}).items()
        ],
    }
