"""Scans of tables without Spark: PyIceberg and PyArrow read the rows that engines read under the table's name.

The package knows the server only through the `Source` of a scan.

PyArrow and PyIceberg are an extra, and their import takes most of a second. So these names load their modules on first
use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firn.lazy_names import load_name

if TYPE_CHECKING:
    from firn.scan.changes import read_feed
    from firn.scan.feed_rows import FeedStores
    from firn.scan.log_scan import LogScan
    from firn.scan.scan import Scan, Source
    from firn.scan.served import Served, list_live_files

__all__ = ["FeedStores", "LogScan", "Scan", "Served", "Source", "list_live_files", "read_feed"]

_HOMES = {
    "firn.scan.changes": ("read_feed",),
    "firn.scan.feed_rows": ("FeedStores",),
    "firn.scan.log_scan": ("LogScan",),
    "firn.scan.scan": ("Scan", "Source"),
    "firn.scan.served": ("Served", "list_live_files"),
}


def __getattr__(name: str) -> object:
    """Load one of the names above from its module."""
    return load_name(__name__, _HOMES, name)
