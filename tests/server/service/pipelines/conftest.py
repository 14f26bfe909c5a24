from __future__ import annotations

import pytest

from tests.server.lake import CHANGE, PLAIN, Lake
from tests.server.service.pipelines.stage import PipelineStage


@pytest.fixture
def stage(lake: Lake) -> PipelineStage:
    return PipelineStage.of(lake)


@pytest.fixture
def built(stage: PipelineStage) -> PipelineStage:
    """A pipeline whose table is built from one snapshot of each input."""
    stage.lake.append(PLAIN)
    stage.lake.append(CHANGE)
    stage.put()
    stage.create_target()
    stage.build()
    return stage
