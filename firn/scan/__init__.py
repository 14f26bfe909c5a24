"""Scans of keyed tables without Spark: PyIceberg reads both stores, and Arrow merges the rows.

A scan returns the rows that engines read under the table's name, by the same merge rule. The package uses PyArrow,
PyIceberg and firn.errors. It knows the server only through the `Source` of a scan.

PyArrow and PyIceberg are an extra, and their import takes most of a second. So these names load their modules on first
use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firn.lazy_names import load_name

if TYPE_CHECKING:
    from firn.scan.scan import Pin, Pinned, Scan, Source
    from firn.scan.served import Served, list_live_files

__all__ = ["Pin", "Pinned", "Scan", "Served", "Source", "list_live_files"]

_HOMES = {
    "firn.scan.scan": ("Pin", "Pinned", "Scan", "Source"),
    "firn.scan.served": ("Served", "list_live_files"),
}


def __getattr__(name: str) -> object:
    """Load one of the names above from its module."""
    return load_name(__name__, _HOMES, name)
