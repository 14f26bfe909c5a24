from __future__ import annotations

from pathlib import Path

import pytest

from catalog.jobs.optimizer_group import DEFAULT_GROUP
from catalog.ports.store import Database
from tests.server.lake import Lake, a_lake
from tests.server.service.fleet_stage import ONE, Stage, a_stage


@pytest.fixture
def lake(database: Database, tmp_path: Path) -> Lake:
    return a_lake(database, tmp_path)


@pytest.fixture
def stage(lake: Lake) -> Stage:
    return a_stage(lake)


@pytest.fixture
def working(stage: Stage) -> Stage:
    """One launch, whose optimizer is registered."""
    stage.fleet.set(DEFAULT_GROUP, ONE)
    stage.fleet.activate()
    stage.registers(stage.launches[0])
    stage.fleet.activate()
    return stage
