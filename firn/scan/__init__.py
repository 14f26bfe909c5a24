"""The rows of a keyed table without Spark: both stores read with PyIceberg, merged in Arrow.

Gives what the table's view gives: the rule of merging is the view's, in other words.  May use PyArrow, PyIceberg and
firn.errors; knows the server only through the `Source` it is handed.
"""

from firn.scan.scan import Pin, Pinned, Scan, Source

__all__ = ["Pin", "Pinned", "Scan", "Source"]
