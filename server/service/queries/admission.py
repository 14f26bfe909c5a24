"""The number of statements that a server answers at once, of all people and of one."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from catalog.access.privileges import PrincipalId
from catalog.errors import Unavailable


@dataclass
class Admission:
    """Counts the statements about the catalog that requests answer now; queries are counted by their own records."""

    _answering: Counter[PrincipalId | None] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self, waiting: int, *, active: int, own: int, owner: PrincipalId | None) -> None:
        """Raise Unavailable if `waiting` statements wait or run, or half of these are the owner's.

        `active` and `own` are the queries of all people and of the owner.
        """
        with self._lock:
            self._check(waiting, active, own, owner)

    def _check(self, waiting: int, active: int, own: int, owner: PrincipalId | None) -> None:
        active += self._answering.total()
        if active >= waiting:
            raise Unavailable(f"{active} queries wait or run", hint="Try again in a few seconds.")
        own += 0 if owner is None else self._answering[owner]
        if own >= max(1, waiting // 2):
            raise Unavailable(f"{own} of your queries wait or run", hint="Wait for them, or cancel one.")

    @contextmanager
    def answering(self, waiting: int, *, active: int, own: int, owner: PrincipalId | None) -> Iterator[None]:
        """Count a statement about the catalog while the block answers it. Unavailable as for `check`."""
        with self._lock:
            self._check(waiting, active, own, owner)
            self._answering[owner] += 1
        try:
            yield
        finally:
            with self._lock:
                self._answering[owner] -= 1
                self._answering += Counter()  # without owners who answer nothing
