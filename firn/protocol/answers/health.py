"""Answers about a table's health."""

from __future__ import annotations

from firn.protocol.base import Open, Out
from firn.protocol.health import HealthPart


class LossOut(Out):
    """The points that one part takes from the score, of its maximum, and the measured value behind it."""

    part: Open[HealthPart]
    points_lost: float
    max_points: int
    detail: str


class TableHealthOut(Out):
    """The health score of a table: at 100 there is nothing to do."""

    score: int
    parts: list[LossOut]
