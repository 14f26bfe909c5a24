"""The rows of a keyed table without Spark: both stores read with PyIceberg, merged in Arrow.

Gives what the table's view gives: the rule of merging is the view's, in other words.  May use PyArrow, PyIceberg and
firn.errors; knows the server only through the `Source` it is handed.

PyArrow and PyIceberg are an extra and take most of a second to import, so these names load their modules on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firn.lazy_names import load_name

if TYPE_CHECKING:
    from firn.scan.scan import Pin, Pinned, Scan, Source
    from firn.scan.served import Served, live_files

__all__ = ["Pin", "Pinned", "Scan", "Served", "Source", "live_files"]

_HOMES = {
    "firn.scan.scan": ("Pin", "Pinned", "Scan", "Source"),
    "firn.scan.served": ("Served", "live_files"),
}


def __getattr__(name: str) -> object:
    """Load one of the names above from its module."""
    return load_name(__name__, _HOMES, name)
