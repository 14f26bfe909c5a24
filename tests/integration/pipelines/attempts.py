"""Optimizers that die, sleep or hear no answer at a moment of a run, without a process of their own.

They have the real worker and the real job. Whoever dies reports nothing and sends no heartbeat any more; Spark lives on
for the other tests. `bury` ends the lease, instead of waiting until it lapses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import httpx

from firn.protocol.beside import ChunkState, CommitChunk, TakeChunk, TakenChunk
from firn.protocol.leases import Lease, Result
from firn.protocol.pipeline_pins import MoveCheckpoint, PinRequest, Pins
from firn.protocol.pipelines import PublishRun
from optimizer.client import TIMEOUT, ServerApi, connect
from optimizer.pipelines import commit
from optimizer.worker import Worker
from tests.keyed_tables import a_worker

MOMENTS = ("pinned", "computed", "committed", "reported")
PATIENCE_SECONDS = 240
_current = threading.local()
_commit_step = commit.commit_step


class Died(BaseException):
    """The end of an optimizer: no `except Exception` of its own catches it."""


@dataclass
class Fate:
    """What happens to an optimizer at a moment: it dies, or it sleeps until it is woken."""

    moment: str
    sleeps: bool = False
    optimizer_id: str = ""
    reached: threading.Event = field(default_factory=threading.Event)
    woken: threading.Event = field(default_factory=threading.Event)

    def pass_by(self, moment: str) -> None:
        if moment != self.moment or self.reached.is_set():
            return
        self.reached.set()
        if not self.sleeps:
            raise Died(moment)
        assert self.woken.wait(PATIENCE_SECONDS)

    @property
    def is_silent(self) -> bool:
        """Whether it sends no heartbeats: it is dead, or asleep."""
        return self.reached.is_set() and not self.woken.is_set()


@dataclass(frozen=True)
class DoomedApi(ServerApi):
    """The server as such an optimizer sees it."""

    fate: Fate = field(default_factory=lambda: Fate(""))

    def pin_pipeline(self, lease: Lease, request: PinRequest) -> Pins:
        pins = ServerApi.pin_pipeline(self, lease, request)
        self.fate.pass_by("pinned")
        return pins

    def move_checkpoint(self, lease: Lease, step: MoveCheckpoint) -> None:
        self.fate.pass_by("computed")
        ServerApi.move_checkpoint(self, lease, step)
        self.fate.pass_by("committed")

    def publish_run(self, lease: Lease, request: PublishRun) -> bool:
        self.fate.pass_by("computed")
        is_held = ServerApi.publish_run(self, lease, request)
        self.fate.pass_by("committed")
        return is_held

    def take_chunk(self, lease: Lease, request: TakeChunk) -> TakenChunk:
        chunk = ServerApi.take_chunk(self, lease, request)
        self.fate.pass_by("taken")
        return chunk

    def commit_chunk(self, lease: Lease, request: CommitChunk) -> ChunkState:
        self.fate.pass_by("chunk computed")
        state = ServerApi.commit_chunk(self, lease, request)
        self.fate.pass_by("chunk committed")
        return state

    def report(self, lease: Lease, result: Result, log: Any) -> None:
        ServerApi.report(self, lease, result, log)
        self.fate.pass_by("reported")

    def beat(self, lease: Lease, progress: Any, log: Any, memory: Any = None) -> None:
        if not self.fate.is_silent:
            ServerApi.beat(self, lease, progress, log, memory)


def _commit_or_die(*arguments: Any) -> Any:
    fate: Fate | None = getattr(_current, "fate", None)
    if fate is None:
        return _commit_step(*arguments)
    fate.pass_by("computed")
    snapshot = _commit_step(*arguments)
    fate.pass_by("committed")
    return snapshot


def work_until(url: str, fate: Fate) -> None:
    """Take one job, and run it as far as fate lets it."""
    worker = replace(a_worker(url), api=DoomedApi(httpx.Client(base_url=url, timeout=TIMEOUT), fate))
    fate.optimizer_id = worker.api.register(**worker.about).id
    _current.fate = fate
    try:
        with patch.object(commit, "commit_step", _commit_or_die):
            assert worker.work_once(fate.optimizer_id, wait_seconds=5), "there is no job"
    except Died:
        assert fate.reached.is_set()
    finally:
        _current.fate = None


def bury(url: str, *fates: Fate) -> None:
    """End the leases of optimizers that are dead or asleep."""
    for fate in fates:
        connect(url).unregister(fate.optimizer_id)


@contextmanager
def asleep(url: str, moment: str) -> Iterator[Fate]:
    """An optimizer in a thread that has taken a job and sleeps at the moment; it ends its work when it is woken."""
    fate = Fate(moment, sleeps=True)
    failures = list[BaseException]()

    def work() -> None:
        try:
            work_until(url, fate)
        except BaseException as error:
            failures.append(error)
            raise

    thread = threading.Thread(target=work)
    with patch.object(commit, "commit_step", _commit_or_die):
        thread.start()
        try:
            assert fate.reached.wait(PATIENCE_SECONDS), failures
            yield fate
        finally:
            fate.woken.set()
            thread.join(PATIENCE_SECONDS)
    assert failures == []


def finish(url: str, is_done: Callable[[], bool]) -> None:
    """Work as sound optimizers do until it is done. Each takes one job, and leaves: a job that it gave up is free."""
    worker: Worker = a_worker(url)
    for _ in range(PATIENCE_SECONDS):
        if is_done():
            return
        optimizer_id = worker.api.register(**worker.about).id
        worker.work_once(optimizer_id, wait_seconds=1)
        worker.api.unregister(optimizer_id)
    raise AssertionError("the runs have not ended")
