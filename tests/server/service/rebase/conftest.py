from __future__ import annotations

import pytest

from tests.server.appending import an_append
from tests.server.lake import PLAIN, Lake
from tests.server.service.rebase.overtaking import ON


@pytest.fixture(params=["2", "3"])
def table(request: pytest.FixtureRequest, lake: Lake) -> Lake:
    """A table with one row whose appends are rebased."""
    lake.create(PLAIN, **ON, **{"format-version": request.param})
    lake.commit(an_append(lake, [0]).change)
    return lake
