"""Stopwatch, medians and the file of results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.measure import Cost, Stopwatch, median, ratio, tree_mib
from bench.report import Report


def test_cpu_seconds_are_those_of_the_process_that_works() -> None:
    def work() -> int:
        while os.times().user + os.times().system < until:
            pass
        return 7

    until = os.times().user + os.times().system + 0.2
    cost, value = Stopwatch([os.getpid()]).cost(work)
    assert value == 7
    assert 0.1 <= cost.cpu <= cost.wall + 0.05


def test_memory_is_that_of_processes_and_their_children() -> None:
    program = "import sys; held = bytearray(b'x') * (50 << 20); print(len(held), flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline()
        assert tree_mib([os.getpid()]) > tree_mib([child.pid]) >= 50
    assert tree_mib([child.pid]) == 0


def test_medians_and_ratios_take_each_clock_for_itself() -> None:
    middle = median([Cost(1.0, 9.0), Cost(2.0, 1.0), Cost(30.0, 4.0)])
    assert middle == Cost(2.0, 4.0)
    assert ratio(middle, Cost(1.0, 8.0)) == {"wall": 2.0, "cpu": 0.5}


def test_results_are_lines_as_they_come_and_one_document_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Report("made-up", rows=5)
    report.line("round", number=0, wall_s=1.5)
    report.line("way", wall_s=1.5)
    report.save(tmp_path / "results")
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in printed] == ["start", "round", "way", "end"]
    saved = json.loads((tmp_path / "results" / "made-up.json").read_text())
    assert saved["lines"] == printed[1:3]
    assert saved["sizes"] == {"rows": 5}
    assert saved["machine"]["cpus"] == os.cpu_count()
