"""A run of a pipeline: compute its tables up to new pins of their inputs, and commit once (docs/pipelines.md).

The job itself has no commit in the sense of the jobs' protocol: the commit is that of the tables' writers, whose epochs
and positions tell whether it was applied (decision 142). A job that has committed and lost its report runs again, and
finds that nothing has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from firn.drains.store import StoreLoader
from firn.errors import FirnError, OutcomeUnknown, ServerFault, Unavailable, Unreachable
from firn.protocol.backfills import Claimed, ClaimRequest
from firn.protocol.beside import ChunkState, CommitChunk, TakeChunk, TakenChunk
from firn.protocol.leases import Outcome, Result
from firn.protocol.pipeline_pins import MoveCheckpoint, PinRequest, Pins
from firn.protocol.pipelines import PublishRun, RunResult
from firn.protocol.tasks.pipeline import PipelineTask
from firn.spark.errors import WriteError, WriteUnknown
from firn.table_handle import TableHandle
from optimizer.credentials import DELEGATION_HEADER, build_lease_headers
from optimizer.errors import Refused
from optimizer.job import OptimizerJob
from optimizer.job_run import JobRun
from optimizer.pipelines.auditing import AuditFailed
from optimizer.pipelines.beside_run import BesideRun
from optimizer.pipelines.inputs import StateRead
from optimizer.pipelines.run import PipelineRun
from optimizer.pipelines.store_files import StoreFiles
from optimizer.read_checks import JobReads, TableRead, check_reads, reads_nothing
from optimizer.spark import JOB_CATALOG

_AWAY = (Unreachable, Unavailable, OutcomeUnknown, ServerFault)


def run(work: JobRun) -> Result:
    """Run the tables of the lease's task."""
    task = PipelineTask.model_validate(work.lease.task)
    if task.is_held:  # an earlier attempt has died before its report
        held = RunResult(mode="nothing", reason="an earlier attempt has computed the rows", held=True)
        return Result(outcome=Outcome.NOTHING, result=held.model_dump(mode="json"))
    attempt = PipelineRun(
        spark=work.session.spark,
        catalog=JOB_CATALOG,
        task=task,
        checkpoints=_LeasedCheckpoints(work),
        run_id=work.lease.job_id,
        stage=work.keeper.stage,
        say=work.keeper.say,
        check_reads=lambda reads: _check_reads(work, reads),
        allow_code=work.allow_code,
        files=StoreFiles(lambda handle: _open_stores(work, handle), work.file_access.check_files),
    )
    try:
        result = attempt.run() if task.beside is None else BesideRun(attempt, _LeasedChunks(work)).run()
    except (WriteUnknown, *_AWAY) as error:
        # Nobody knows, or nobody answered: the next attempt finds the position that the table has.
        raise httpx.TransportError(str(error)) from error
    except AuditFailed as error:
        failed = RunResult(mode="nothing", reason=str(error), validators=error.results)
        return Result(outcome=Outcome.REFUSED, error=str(error), result=failed.model_dump(mode="json"))
    except WriteError as error:
        raise Refused(str(error)) from error
    except FirnError as error:
        raise Refused("; ".join(filter(None, (error.message, error.hint)))) from error
    return Result(outcome=Outcome.NOTHING, result=result.model_dump(mode="json"))


def _open_stores(work: JobRun, handle: TableHandle) -> StoreLoader:
    """A loader of a table's stores, which speaks to the catalog with the job's lease."""
    # PyIceberg would ask for credentials itself.
    return StoreLoader(handle, {DELEGATION_HEADER: "", **build_lease_headers(work.lease)})


def _check_reads(work: JobRun, reads: Sequence[StateRead]) -> None:
    """Whoever writes an input chooses the paths in its metadata, and must not have other tables' files read."""
    check_reads(work, JobReads(tables=[TableRead(parts=read.parts, snapshot_id=read.snapshot_id) for read in reads]))
    work.keeper.stage("computing")


@dataclass(frozen=True)
class _LeasedCheckpoints:
    """The server's part of a run, under the job's lease."""

    work: JobRun

    def pin(self, request: PinRequest) -> Pins:
        return self.work.api.pin_pipeline(self.work.lease, request)

    def move(self, step: MoveCheckpoint) -> None:
        self.work.api.move_checkpoint(self.work.lease, step)

    def publish(self, request: PublishRun) -> bool:
        return self.work.api.publish_run(self.work.lease, request)

    def claim(self, request: ClaimRequest) -> Claimed:
        return self.work.api.claim_chunks(self.work.lease, request)


@dataclass(frozen=True)
class _LeasedChunks:
    """The server's part of a job beside live runs, under its lease."""

    work: JobRun

    def take(self, request: TakeChunk) -> TakenChunk:
        return self.work.api.take_chunk(self.work.lease, request)

    def commit(self, request: CommitChunk) -> ChunkState:
        return self.work.api.commit_chunk(self.work.lease, request)


JOB = OptimizerJob(run, reads_nothing)
