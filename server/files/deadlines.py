"""Time-outs for calls to a storage that may never answer, each in a thread that its caller can abandon.

Nothing can end a thread that waits for a network file system or for HDFS.  So its caller abandons it after a time-out
and answers its request.  A store with too many abandoned threads gets no further calls until some of them return.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

MOST_HANGING = 16
"""The most abandoned threads of one store."""
_MOST_IDLE = 64
_names = itertools.count(1)
T = TypeVar("T")


def find_store(location: str) -> str:
    """Get the store of a location, a bucket or name node; hanging calls count per store."""
    scheme, sign, rest = location.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if sign else ""


class Deadlines:
    """Runs calls with a time-out.  Safe to share between threads."""

    def __init__(self, seconds: float, *, most_hanging: int = MOST_HANGING) -> None:
        self.seconds = seconds
        self._most_hanging = most_hanging
        self._idle: list[_Worker] = []
        self._hanging: Counter[str] = Counter()
        self._lock = threading.Lock()

    def run(self, store: str, call: Callable[[], T], *, seconds: float | None = None) -> T:
        """Return the call's result or raise its error; TimeoutError when it or too many calls of its store hang."""
        if self._hanging[store] >= self._most_hanging:
            raise TimeoutError(None, f"{self._hanging[store]} earlier calls got no answer")
        worker = self._worker()
        task = _Task(call)
        worker.take(task)
        limit = self.seconds if seconds is None else seconds
        if not task.done.acquire(timeout=limit):
            with self._lock:
                if task.is_over:
                    task.done.acquire()
                else:
                    task.abandoned_store = store
                    self._hanging[store] += 1
        if task.abandoned_store is not None:
            raise TimeoutError(None, f"no answer within {limit:g} s")
        if task.error is not None:
            raise task.error
        result: T = task.result
        return result

    def _worker(self) -> _Worker:
        try:
            return self._idle.pop()  # a list's own operations need no lock
        except IndexError:
            return _Worker(self._over)

    def _over(self, worker: _Worker, task: _Task) -> bool:
        """Finish a task. Returns whether the worker continues."""
        with self._lock:
            task.is_over = True
            if task.abandoned_store is not None:
                self._hanging[task.abandoned_store] -= 1
            stays = len(self._idle) < _MOST_IDLE
            if stays:
                self._idle.append(worker)
        task.done.release()
        return stays


class _Task:
    """One call and its result or error."""

    __slots__ = ("abandoned_store", "call", "done", "error", "is_over", "result")

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.done = threading.Lock()
        self.done.acquire()
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_over = False
        self.abandoned_store: str | None = None


class _Worker:
    """A thread that runs one task after the other; a daemon, because a hanging thread must not block the exit."""

    def __init__(self, over: Callable[[_Worker, _Task], bool]) -> None:
        self._over = over
        self._task: _Task | None = None
        self._ready = threading.Lock()
        self._ready.acquire()
        threading.Thread(target=self._work, name=f"storage-{next(_names)}", daemon=True).start()

    def take(self, task: _Task) -> None:
        """Start a task; the worker must be idle."""
        self._task = task
        self._ready.release()

    def _work(self) -> None:
        stays = True
        while stays:
            self._ready.acquire()
            task, self._task = self._task, None
            assert task is not None  # the lock is only released with a task
            try:
                task.result = task.call()
            except BaseException as error:  # noqa: BLE001 - raised where the call came from
                task.error = error
            stays = self._over(self, task)
            del task  # frees an unused result before the next call
