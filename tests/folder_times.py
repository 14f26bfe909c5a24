"""Reports which folders and which tests a run spent its time on, so that CI tells where a slow suite is slow."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

SHOWN = 15


class FolderTimes:
    """Sums the seconds of tests, their fixtures included. A process that waits for the CPU spends seconds, too."""

    def __init__(self) -> None:
        self._seconds = defaultdict[str, float](float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in summarize(self._seconds):
            terminalreporter.write_line(line)


def summarize(seconds: dict[str, float]) -> list[str]:
    """A line for each of the folders and tests that took most: seconds, tests, name."""
    folders = defaultdict[str, list[float]](list)
    for test, spent in seconds.items():
        folder = test.split("::")[0].rpartition("/")[0]
        folders["/".join(folder.split("/")[:3])].append(spent)
    by_folder = sorted(folders.items(), key=lambda item: -sum(item[1]))[:SHOWN]
    slowest = sorted(seconds.items(), key=lambda item: -item[1])[:SHOWN]
    return [
        "seconds of tests, summed over processes:",
        *(f"{sum(spent):7.0f} s {len(spent):6} tests  {folder}" for folder, spent in by_folder),
        *(f"{spent:7.0f} s  {test}" for test, spent in slowest),
    ]
