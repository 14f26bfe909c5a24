"""Whether Firn was installed with its extra `scan`, for reads without Spark."""

from __future__ import annotations

from importlib.util import find_spec

from firn.errors import FirnError


def require_scan() -> None:
    """Raise FirnError where Firn was installed without its extra `scan`."""
    if any(find_spec(package) is None for package in ("fastavro", "pyarrow", "pyiceberg")):
        raise FirnError("reading a table without Spark needs PyArrow and PyIceberg: pip install 'firn[scan]'")
