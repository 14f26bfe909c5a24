"""Older states of keyed tables, which the server shows while it has not merged the newest commits for readers."""

from __future__ import annotations

import logging

IMAGE_LAG = "firn.image.lag-ms"
"""A property of an older state: for at most so many milliseconds there have been newer commits."""
_LOG = logging.getLogger("firn")


def warn_about_lag(table: str, milliseconds: str) -> None:
    """Say that a reader gets an older state, and what helps."""
    _LOG.warning(
        "%s shows an older state: commits of the last %.1f s may be missing, because the server did not merge them for "
        "readers in time. Run `firn table merge`, or set firn.read.on-timeout=refuse to get an error instead",
        table,
        int(milliseconds) / 1000,
    )
