"""Who commits next to a table: those who came first.

Commits that race for one table would each be judged, written and refused by the pointer, over and over; the unlucky
starve. In one server they queue here instead. Several servers queue at their database, once they have met at a table;
the pointer decides, as ever: a turn makes nothing safe.

Maintenance waits behind everybody: what it has written is made again from any state of the table, a user's work may
not be. It is let pass before it starves.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

MOST_OVERTAKEN = 16
"""How many users go before a waiting job's commit; then it is its turn."""


@dataclass
class _Queue:
    """Who waits for one thing, while somebody has it."""

    users: deque[threading.Event] = field(default_factory=deque)
    jobs: deque[threading.Event] = field(default_factory=deque)
    overtaken: int = 0
    """How many users have gone before the first of the jobs."""

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
    """A queue for each thing that somebody waits for; nothing is kept for the rest."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _queues: dict[Hashable, _Queue] = field(default_factory=dict)

    @contextmanager
    def wait(self, things: Iterable[Hashable], *, job: bool = False) -> Iterator[None]:
        """Wait for a turn at each of them, in one order for all, or two who want the same two would wait for ever."""
        with ExitStack() as held:
            for thing in sorted(set(things), key=repr):
                held.enter_context(self._at(thing, job=job))
            yield

    @contextmanager
    def _at(self, thing: Hashable, *, job: bool) -> Iterator[None]:
        turn = threading.Event()
        with self._lock:
            queue = self._queues.get(thing)
            if queue is None:
                self._queues[thing] = _Queue()
            else:
                (queue.jobs if job else queue.users).append(turn)
        if queue is not None:
            turn.wait()
        try:
            yield
        finally:
            self._leave(thing)

    def _leave(self, thing: Hashable) -> None:
        with self._lock:
            queue = self._queues[thing]
            if queue:
                queue.next().set()
            else:
                del self._queues[thing]
