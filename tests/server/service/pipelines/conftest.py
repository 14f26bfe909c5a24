from __future__ import annotations

import pytest

from tests.server.lake import Lake
from tests.server.service.pipelines.stage import PipelineStage


@pytest.fixture
def stage(lake: Lake) -> PipelineStage:
    return PipelineStage.of(lake)
