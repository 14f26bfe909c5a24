"""Sizes of files beside the target, and a planner that has counted them."""

from __future__ import annotations

from tests.server.lake import Lake
from tests.server.service.dry_runs.day_tables import MIB

TARGET, SMALL, LARGE, PLANNED, ASKED = 128 * MIB, 96 * MIB, int(1.8 * 128 * MIB), 5, 2
URL = "/api/v1/catalogs/lake/tables"


def settle(lake: Lake) -> None:
    """What the background does within seconds of a commit."""
    lake.services.planner_loop.run_once()
    lake.services.file_layouts.run_once()
    lake.services.planner_loop.run_once()
