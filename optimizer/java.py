"""Java's collections, as Python goes through them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def each(iterable: Any) -> Iterator[Any]:
    """The elements of any Java iterable: py4j makes only lists and sets iterable by itself."""
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()
