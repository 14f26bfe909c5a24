"""The queue of commits to a table: first come, first served.

Commits that race for one table would each be validated, written and then refused by the pointer, and unlucky ones would
starve. So the commits of one server queue here. Servers that have met at a table queue at their database. The queue
only saves work; the pointer alone makes commits safe.

Maintenance jobs wait behind users. A job can repeat its work from any state of the table; a user may not be able to.
After MOST_OVERTAKEN users the job has its turn, so that it does not starve.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

MOST_OVERTAKEN = 16
"""The number of users' commits that may overtake a waiting job's commit."""


@dataclass
class _Queue:
    """The commits that wait for one table."""

    users: deque[threading.Event] = field(default_factory=deque)
    jobs: deque[threading.Event] = field(default_factory=deque)
    overtaken: int = 0
    """The number of users' commits that have overtaken the first job's commit."""

    def __len__(self) -> int:
        return len(self.users) + len(self.jobs)

    def next(self) -> threading.Event:
        if self.jobs and (not self.users or self.overtaken >= MOST_OVERTAKEN):
            self.overtaken = 0
            return self.jobs.popleft()
        self.overtaken += 1 if self.jobs else 0
        return self.users.popleft()


@dataclass
class CommitQueue:
    """One queue for each table with a running commit."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _queues: dict[Hashable, _Queue] = field(default_factory=dict)

    @contextmanager
    def wait(self, tables: Iterable[Hashable], *, job: bool = False) -> Iterator[None]:
        """Wait for a turn at each table.

        All callers take the tables in the same order; otherwise two commits to the same two tables could deadlock.
        """
        with ExitStack() as turns:
            for table in sorted(set(tables), key=repr):
                turns.enter_context(self._wait_for_turn(table, job=job))
            yield

    @contextmanager
    def _wait_for_turn(self, table: Hashable, *, job: bool) -> Iterator[None]:
        turn = threading.Event()
        with self._lock:
            queue = self._queues.get(table)
            if queue is None:
                self._queues[table] = _Queue()
            else:
                (queue.jobs if job else queue.users).append(turn)
        if queue is not None:
            turn.wait()
        try:
            yield
        finally:
            self._leave(table)

    def _leave(self, table: Hashable) -> None:
        with self._lock:
            queue = self._queues[table]
            if queue:
                queue.next().set()
            else:
                del self._queues[table]
