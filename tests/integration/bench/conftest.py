"""The parts that all tests of benchmarks share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.integration.bench.shared_parts import SharedParts, share


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedParts]:
    with ExitStack() as ends:
        yield SharedParts(tmp_path_factory.mktemp("bench"), ends)


@pytest.fixture
def shared_parts(parts: SharedParts, monkeypatch: pytest.MonkeyPatch) -> SharedParts:
    """Benchmarks of the test start nothing: they use what others have used."""
    share(parts, monkeypatch)
    return parts
