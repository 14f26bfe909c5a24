"""The check that models of keyed tables share: merged rows are those of the log, in one step as well as in layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar


class Sequenced(Protocol):
    """A change with the sequence number of its commit."""

    @property
    def sequence(self) -> int: ...


C = TypeVar("C", bound=Sequenced)
R = TypeVar("R")


def check_layers(base: R, pending: Sequence[C], merge: Callable[[R, Iterable[C]], R], replayed: R) -> str | None:
    """What is wrong with the merged rows of these pending changes; None if nothing is.

    An image may be built at once, or as a layer on an image of the commits up to any of them.
    """
    view = merge(base, pending)
    if view != replayed:
        return "the view differs from the replay"
    for cut in {change.sequence for change in pending}:
        below = merge(base, (change for change in pending if change.sequence <= cut))
        if merge(below, (change for change in pending if change.sequence > cut)) != view:
            return "a layer on an image differs from an image that is built at once"
    return None
