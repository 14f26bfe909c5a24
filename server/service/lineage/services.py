"""The services of lineage."""

from __future__ import annotations

from dataclasses import dataclass

from server.service.lineage.collecting import LineageCollecting
from server.service.lineage.graph import LineageGraphs
from server.service.lineage.intake import LineageIntake


@dataclass(frozen=True, kw_only=True)
class LineageServices:
    """What collects lineage, takes it in, and shows it."""

    collecting: LineageCollecting
    intake: LineageIntake
    graphs: LineageGraphs
