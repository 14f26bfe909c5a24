"""Pipelines of a server: `client.pipelines["orders"]`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from firn.errors import Invalid, NotFound
from firn.history import quoted
from firn.jobs import wait_until_final
from firn.names import split_name
from firn.protocol.backfills import CHUNK_SECONDS, BackfillOut, BackfillRequest, ReplayRequest
from firn.protocol.held_rows import HeldRowsOut
from firn.protocol.jobs import JobStatus
from firn.protocol.pipeline_graph import GraphOut, LineageOut
from firn.protocol.pipeline_plan import PipelinePlanOut
from firn.protocol.pipelines import (
    PipelineOut,
    PipelineVersionOut,
    PutOut,
    PutPipeline,
    RunDiscarded,
    RunOut,
    RunPublished,
    RunRequest,
)
from firn.transport import Transport

_FINAL = frozenset(str(status) for status in JobStatus if status.is_final)


@dataclass(frozen=True, slots=True)
class Pipelines:
    """The pipelines of the server."""

    transport: Transport

    def __getitem__(self, name: str) -> Pipeline:
        return Pipeline(self.transport, name)

    def list(self, *, limit: int | None = None) -> Iterator[PipelineOut]:
        """By name, page by page; those whose tables the user may see."""
        return (PipelineOut.read(document) for document in self.transport.items("/pipelines", limit=limit))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One pipeline, by name; whether there is one shows when something is asked of it."""

    transport: Transport
    name: str

    def show(self) -> PipelineOut:
        """Its tables with state, checkpoint and last run."""
        return PipelineOut.read(self.transport.get(self._path()))

    def show_graph(self) -> GraphOut:
        """Its tables and inputs: how far each table is behind, and because of which inputs."""
        return GraphOut.read(self.transport.get(self._path("/graph")))

    def show_lineage(self) -> LineageOut:
        """The columns of its tables with the columns that they are computed from."""
        return LineageOut.read(self.transport.get(self._path("/lineage")))

    def plan(self, table: str | None = None) -> PipelinePlanOut:
        """What the next run of each table, or of one, would do now, and what has changed in its inputs."""
        params = {} if table is None else {"table": self.find_table(table)}
        return PipelinePlanOut.read(self.transport.get(self._path("/plan"), params))

    def put(self, definition: PutPipeline) -> PutOut:
        """Store a version, which `firn.pipelines.build_put` makes from a folder.

        Refused if it changes the query of a table that is built, unless the definition says `rebuild`. With `dry_run`
        nothing is stored.
        """
        body = definition.model_dump(mode="json")
        return PutOut.read(self.transport.change("PUT", self._path(), body))

    def run(
        self, table: str, *, full: bool = False, to: datetime | None = None, idempotency_key: str | None = None
    ) -> Run:
        """Start a run of one table, and return at once. With `full` it computes all rows.

        With `to`, a time with its zone, it takes the commits to its inputs up to then, and no later ones. With the
        `idempotency_key` of an earlier request of the same user, it starts none and returns the run of that request.

        `table` may be a name without its namespace. Refused while the table has an active run.
        """
        request = RunRequest(table=self.find_table(table), full=full, to=to, idempotency_key=idempotency_key)
        answer = self.transport.change("POST", self._path("/runs"), request.model_dump(mode="json", exclude_none=True))
        return Run(self, RunOut.read(answer))

    def runs(self, table: str | None = None, *, limit: int | None = None) -> Iterator[RunOut]:
        """Its runs, the newest first, page by page."""
        params = {"table": None if table is None else self.find_table(table)}
        return (RunOut.read(document) for document in self.transport.items(self._path("/runs"), params, limit=limit))

    def get_run(self, job_id: UUID | str) -> RunOut:
        """One run by the id of its job."""
        return RunOut.read(self.transport.get(self._path(f"/runs/{job_id}")))

    def versions(self, *, limit: int | None = None) -> Iterator[PipelineVersionOut]:
        """Its versions, the newest first, page by page."""
        documents = self.transport.items(self._path("/versions"), limit=limit)
        return (PipelineVersionOut.read(document) for document in documents)

    def get_version(self, number: int) -> PipelineVersionOut:
        """One version with its files."""
        return PipelineVersionOut.read(self.transport.get(self._path(f"/versions/{number}")))

    def reset(self, table: str) -> None:
        """Forget the checkpoint of a table: the next run computes all of its rows. An active run commits nothing."""
        self.transport.change("POST", self._path_of(table, "reset"))

    def publish(self, table: str) -> RunPublished:
        """Commit the run of a table that waits for approval, with all tables of that run. Refused if none does."""
        return RunPublished.read(self.transport.change("POST", self._path_of(table, "publish")))

    def held(self, table: str) -> HeldRowsOut:
        """Show what publishing the run of a table that waits for approval would do, with some rows before and after.

        Refused if no run of the table waits.
        """
        return HeldRowsOut.read(self.transport.get(self._path_of(table, "held")))

    def discard(self, table: str) -> RunDiscarded:
        """Forget the run of a table that waits for approval, with all tables of that run. Refused if none does."""
        return RunDiscarded.read(self.transport.change("POST", self._path_of(table, "discard")))

    def backfill(
        self,
        table: str,
        where: str,
        *,
        chunks: int | None = None,
        chunk_seconds: int = CHUNK_SECONDS,
        beside: int | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> BackfillOut:
        """Recompute the rows that `where` selects, a condition over the table's scope, in chunks.

        Firn starts runs for them, and each takes as many as it computes in about `chunk_seconds`. With `beside` so many
        jobs compute them instead, beside the runs. With `dry_run` nothing is stored, and the result has the chunks.
        With the `idempotency_key` of an earlier request of the same user, the result is the backfill of that request.
        """
        request = BackfillRequest(
            where=where,
            chunks=chunks,
            chunk_seconds=chunk_seconds,
            beside=beside,
            dry_run=dry_run,
            idempotency_key=idempotency_key,
        )
        body = request.model_dump(mode="json", exclude_none=True)  # older servers refuse unknown fields
        answer = self.transport.change("POST", self._backfills(table), body)
        return BackfillOut.read(answer)

    def replay(
        self, table: str, *, checkpoint: str | None = None, at: datetime | None = None, dry_run: bool = False
    ) -> BackfillOut:
        """Compute again what has changed since a checkpoint, or since the newest one up to a time.

        Without both, it is the oldest checkpoint that can be used. With `dry_run` nothing is stored.
        """
        request = ReplayRequest(checkpoint=checkpoint, at=at, dry_run=dry_run)
        path = self._path(f"/tables/{quoted(self.find_table(table))}/replays")
        return BackfillOut.read(self.transport.change("POST", path, request.model_dump(mode="json")))

    def backfills(self, table: str, *, limit: int | None = None) -> Iterator[BackfillOut]:
        """The backfills of a table, the newest first, page by page."""
        return (BackfillOut.read(document) for document in self.transport.items(self._backfills(table), limit=limit))

    def get_backfill(self, table: str, backfill_id: UUID | str) -> BackfillOut:
        """One backfill with its chunks."""
        return BackfillOut.read(self.transport.get(f"{self._backfills(table)}/{backfill_id}"))

    def pause(self, table: str, backfill_id: UUID | str) -> BackfillOut:
        """Let runs go on without the chunks of a backfill. A run that works on some may still commit them."""
        return self._change_backfill(table, backfill_id, "pause")

    def resume(self, table: str, backfill_id: UUID | str) -> BackfillOut:
        """Let runs take the chunks of a paused or failed backfill again."""
        return self._change_backfill(table, backfill_id, "resume")

    def cancel(self, table: str, backfill_id: UUID | str) -> BackfillOut:
        """Give up the chunks of a backfill that are left. Committed ones stay."""
        return self._change_backfill(table, backfill_id, "cancel")

    def drop(self) -> None:
        """Drop the pipeline. Its tables stay, and no run commits to them after the answer."""
        self.transport.change("DELETE", self._path())

    def find_table(self, name: str) -> str:
        """The full name of one of its tables; NAMESPACE.TABLE is taken as it is."""
        if len(split_name(name)) > 1:
            return name
        names = [table.name for table in self.show().tables]
        matching = [full for full in names if split_name(full)[-1] == split_name(name)[0]]
        if not matching:
            raise NotFound(f"{self.name} has no table {name}", hint=f"it has {', '.join(names)}")
        if len(matching) > 1:
            raise Invalid(f"{name} may be {' or '.join(matching)}", hint="write NAMESPACE.TABLE")
        return matching[0]

    def _path_of(self, table: str, verb: str) -> str:
        return self._path(f"/tables/{quoted(self.find_table(table))}/{verb}")

    def _change_backfill(self, table: str, backfill_id: UUID | str, verb: str) -> BackfillOut:
        return BackfillOut.read(self.transport.change("POST", f"{self._backfills(table)}/{backfill_id}/{verb}"))

    def _backfills(self, table: str) -> str:
        return self._path(f"/tables/{quoted(self.find_table(table))}/backfills")

    def _path(self, part: str = "") -> str:
        return f"/pipelines/{quoted(self.name)}{part}"


@dataclass(frozen=True, slots=True)
class Run:
    """A run that was started."""

    pipeline: Pipeline
    started: RunOut

    @property
    def id(self) -> str:
        """The id of its job."""
        return self.started.job_id

    def wait(self, *, seconds: float | None = 3600, on_progress: Callable[[RunOut], None] = lambda _: None) -> RunOut:
        """The run once it has ended, however it did; the method calls `on_progress` with each state on the way.

        StillRunning when that takes longer than `seconds`; None waits without end.
        """
        return wait_until_final(
            lambda: self.pipeline.get_run(self.id), is_final, seconds, on_progress, f"the run of {self.started.table}"
        )


def is_final(run: RunOut) -> bool:
    """Whether a run has ended."""
    return run.status in _FINAL
