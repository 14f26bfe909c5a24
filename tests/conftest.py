"""Rules for every test: its tier, no settings of this machine, and the same random cases in every run.

docs/testing.md describes the two tiers.
"""

from __future__ import annotations

from firn import garbage_collection  # first: it makes the imports of tests faster

# isort: split
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import httpx
import httpx._transports.asgi
import httpx._transports.default
import pytest
from hypothesis import settings
from xdist.remote import Producer

from tests.folder_times import FolderTimes
from tests.scheduling import FoldersApart

pytest_plugins = ["tests.databases"]

TESTS = Path(__file__).parent
SECOND_TIER = TESTS / "integration"
ON_BOTH_DATABASES = TESTS / "server"
"""The only folder whose tests the second tier repeats on PostgreSQL. It does not import the tests of other folders."""
REAL_PARTS = [TESTS / "smoke", TESTS / "server" / "store"]
"""Folders of the first tier whose tests use real parts: the smoke test, and the suite of the database adapter."""
MARKS_OF_REAL_PARTS = frozenset({"spark", "hive", "postgres", "browser", "model"})

# Hypothesis derives the cases from the code of the test, so anybody can repeat a failed run. Only soak runs draw new
# cases, and a failure prints the line that repeats it. pytest-timeout limits the time, because a single case that uses
# Spark may take seconds.
settings.register_profile("same", database=None, deadline=None, derandomize=True, print_blob=True)
settings.register_profile("fresh", deadline=None, print_blob=True)
settings.load_profile("fresh" if "SOAK_SECONDS" in os.environ else "same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tier",
        choices=["first", "second", "all"],
        default="first",
        help="first: without tests/integration, where that is not named, and on SQLite and fakes alone;"
        " second: tests/integration, and on PostgreSQL and real metastores what the first runs without them",
    )
    parser.addoption(
        "--light-process",
        action="store_true",
        help="the last process of -n begins with files that need no JVM and no browser (tests/scheduling.py)",
    )
    parser.addoption(
        "--folder-times",
        action="store_true",
        help="report the folders and tests that took most of the time (tests/folder_times.py)",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("folder_times") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FolderTimes())


@pytest.hookimpl(optionalhook=True)  # xdist can be switched off
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FoldersApart | None:
    return FoldersApart(config, log) if config.getoption("light_process") else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip folders without tests of the tier, unless the command line names a path below them."""
    if not collection_path.is_dir() or collection_path.parent != TESTS:
        return None
    ignored = {
        "first": collection_path == SECOND_TIER,
        "second": collection_path not in {SECOND_TIER, ON_BOTH_DATABASES},
        "all": False,
    }
    return True if ignored[config.getoption("tier")] else None


def pytest_collection_finish() -> None:
    garbage_collection.resume()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tier = config.getoption("tier")
    kept = [item for item in items if tier in {"all", _tier(item)} or _is_below(item.path, SECOND_TIER)]
    if len(kept) < len(items):
        those = set(kept)
        config.hook.pytest_deselected(items=[item for item in items if item not in those])
    # The long histories begin first: with several processes, a long test that begins last would delay the end.
    items[:] = sorted(kept, key=lambda item: item.get_closest_marker("model") is None)


def _tier(item: pytest.Item) -> str:
    if _is_below(item.path, SECOND_TIER):
        return "second"
    if any(_is_below(item.path, folder) for folder in REAL_PARTS):
        return "first"
    if marks := MARKS_OF_REAL_PARTS & _marks_of_the_function(item):
        message = f"{item.nodeid} is marked {', '.join(marks)}: its file belongs into tests/integration"
        raise pytest.UsageError(message)
    if not any(item.get_closest_marker(mark) for mark in MARKS_OF_REAL_PARTS):
        return "first"
    if not _is_below(item.path, ON_BOTH_DATABASES):
        message = f"{item.nodeid} needs real parts: its file belongs into tests/integration, or into tests/server"
        raise pytest.UsageError(message)
    return "second"


def _marks_of_the_function(item: pytest.Item) -> set[str]:
    """The marks of all cases of the test's function, without the marks of single parameters."""
    marks = {mark.name for node in item.listchain()[:-1] for mark in node.own_markers}
    function = getattr(item, "function", None)
    return marks | {mark.name for mark in getattr(function, "pytestmark", [])}


@cache  # of some files and folders, asked for each of 11,000 tests
def _is_below(path: Path, folder: Path) -> bool:
    return folder in path.parents


@pytest.fixture(scope="session", autouse=True)
def _nothing_waits_for_disks_and_certificates() -> Iterator[None]:
    """Skip `fsync`, build one TLS context for all clients, and do not look for Trio at each request.

    No test cuts the power, and no server of the tests has a certificate. A client would load all root certificates.
    Trio is not installed, and a module that is not there is searched for at each import.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        patch.setattr(httpx._transports.default, "create_ssl_context", cache(httpx.create_ssl_context))
        patch.setattr(httpx._transports.asgi, "is_running_trio", lambda: False)
        yield


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove FIRN_… variables, which would configure every server that a test starts."""
    for name in [name for name in os.environ if name.startswith("FIRN_")]:
        monkeypatch.delenv(name)
