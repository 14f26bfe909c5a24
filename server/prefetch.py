"""Parallel work in threads, which run only as far ahead as the consumer of the results needs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_PER_THREAD = 2
"""Batches in progress or waiting per thread: enough to keep every thread busy."""


def run_in_threads(
    work: Callable[[list[T]], Iterable[R]], items: Iterable[T], *, threads: int, at_once: int, name: str
) -> Iterator[R]:
    """What `work` makes of so many items `at_once`, in their order; its first error ends it.

    Items are taken as they are needed and results are kept only until they are: there may be more of both than fit into
    memory, and whoever takes the results may be slower than the threads.
    """
    remaining = iter(items)
    with ThreadPoolExecutor(threads, thread_name_prefix=name) as pool:
        begun: deque[Future[Iterable[R]]] = deque()
        try:
            while batch := list(islice(remaining, at_once)):
                begun.append(pool.submit(work, batch))
                if len(begun) >= threads * _PER_THREAD:
                    yield from begun.popleft().result()
            while begun:
                yield from begun.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
