"""What `firn up --kafka` starts, once for the notebooks and the tutorials."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from firn.embedded.ports import free_port
from firn.local import LocalFirn
from tests.spark_fixtures import interpret_queries


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFirn]:
    directory = tmp_path_factory.mktemp("docs")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in interpret_queries(directory).items():
            patch.setenv(name, value)
        running = LocalFirn(
            directory / "data", port=free_port(), master="local[2]", memory="1g", kafka_port=free_port()
        )
        with running:
            yield running
