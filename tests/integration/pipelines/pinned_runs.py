"""Runs of a pipeline's table whose checkpoints a test keeps, instead of the server."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import firn
from firn.drains.store import StoreLoader
from firn.protocol.backfills import Claimed, ClaimRequest
from firn.protocol.names import split_name
from firn.protocol.pipeline_pins import Checkpoint, InputPin, MoveCheckpoint, PinRequest, Pins, TargetPins
from firn.protocol.pipelines import PublishRun, Refresh, RunResult
from firn.protocol.tasks.pipeline import PipelineTask, TargetTask
from optimizer.pipelines.run import PipelineRun
from optimizer.pipelines.store_files import StoreFiles
from tests.spark_fixtures import RunningServer


class PinnedRuns:
    """One table of a pipeline on a real server. Commits go through the server's rules for writers.

    `moved` are the checkpoints that were reached without a commit.
    """

    def __init__(self, server: RunningServer, target: str, query: str, inputs: list[str], **definition: Any) -> None:
        self.server, self.target, self.inputs = server, target, inputs
        self.client = firn.connect(server.url, catalog="lake")
        self.moved: dict[str, str] = {}
        self.checkpoints: dict[str, Checkpoint] = {}
        self.definition = {
            "name": target,
            "query": query,
            "path": "transformations/t.sql",
            "line": 1,
            "inputs": inputs,
            "refresh": Refresh.INCREMENTAL,
            "fingerprint": hashlib.sha256(query.encode()).hexdigest(),
            "incremental": True,
            **definition,
        }

    @property
    def writer(self) -> str:
        return f"pipeline:orders#{self.target}"

    def run(self, *, full: bool = False) -> RunResult:
        task = PipelineTask(
            pipeline="orders",
            version=1,
            targets=[TargetTask(definition=self.definition, target=list(split_name(self.target)))],
            deterministic=[],
            full=full,
        )
        return PipelineRun(self.server.spark, "lake", task, self, files=StoreFiles(StoreLoader)).run()

    def pin(self, request: PinRequest) -> Pins:
        fingerprint = request.targets[0].fingerprint
        writer = self.client.tables[self.target].writers.register(self.writer)
        position = self.moved.get(writer.position or "", writer.position)
        since = self.checkpoints.get(position or "")
        if since is not None and since.fingerprint != fingerprint:
            since = None
        until = Checkpoint(
            id=str(uuid4()),
            fingerprint=fingerprint,
            pinned_at=datetime.now(UTC),
            pins=[self._pin(name) for name in self.inputs],
        )
        self.checkpoints[until.id] = until
        full_reason = None if since else "there is no checkpoint"
        pins = TargetPins(table=self.target, writer=writer, since=since, full_reason=full_reason, until=until)
        return Pins(targets=[pins])

    def move(self, step: MoveCheckpoint) -> None:
        """Only the server can move a position: here the next run starts from the checkpoint that a table tells."""
        self.moved[step.start] = step.end
        self.checkpoints[step.end] = self.checkpoints[step.end].model_copy(update={"exact_at": step.exact_at})

    def publish(self, request: PublishRun) -> bool:
        raise AssertionError("the run has one table")

    def claim(self, request: ClaimRequest) -> Claimed:
        """These tables have no backfills."""
        raise AssertionError(request)

    def _pin(self, name: str) -> InputPin:
        table = self.client.tables[name].show()
        is_keyed = bool(table.primary_key)
        version = str(table.version) if is_keyed else next(iter(table.stores.values())).snapshot_id
        return InputPin(table=name, table_uuid=str(table.id), keyed=is_keyed, version=version)
