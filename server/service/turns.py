"""Who commits next to a table: those who came first.

Commits that race for one table would each be judged, written and refused by the pointer, over and over; the unlucky
starve. In one server they queue here instead. Between servers the pointer decides, as ever: a turn makes nothing safe.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field


@dataclass
class Turns:
    """A queue for each thing that somebody waits for; nothing is kept for the rest."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _queues: dict[Hashable, deque[threading.Event]] = field(default_factory=dict)

    @contextmanager
    def of(self, things: Iterable[Hashable]) -> Iterator[None]:
        """Wait for a turn at each of them, in one order for all, or two who want the same two would wait for ever."""
        with ExitStack() as held:
            for thing in sorted(set(things), key=repr):
                held.enter_context(self._at(thing))
            yield

    @contextmanager
    def _at(self, thing: Hashable) -> Iterator[None]:
        turn = threading.Event()
        with self._lock:
            queue = self._queues.get(thing)
            if queue is None:
                self._queues[thing] = deque()
            else:
                queue.append(turn)
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
                queue.popleft().set()
            else:
                del self._queues[thing]
