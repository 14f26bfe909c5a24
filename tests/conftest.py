"""What holds for every test: no setting leaks in, and random cases are the same in every run of CI."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# In CI the cases follow from the code of the test, so anybody can repeat a red run; at home and in soak runs they are
# drawn afresh, and a failure prints the line that repeats it.  Time is limited by pytest-timeout: a single case that
# talks to Spark may take seconds.
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("fresh", deadline=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") and "SOAK_SECONDS" not in os.environ else "fresh")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long histories first: with several processes, what begins last decides how long all of it takes."""
    items.sort(key=lambda item: item.get_closest_marker("model") is None)


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's FIRN_… variables would configure every server that a test starts."""
    for name in [name for name in os.environ if name.startswith("FIRN_")]:
        monkeypatch.delenv(name)
