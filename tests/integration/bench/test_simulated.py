"""The benchmark of a million files runs at a size at which its memory means nothing; it needs no metastore."""

from __future__ import annotations

import json
from pathlib import Path

from bench.hive.__main__ import main


def test_files_that_are_made_up_are_upgraded(tmp_path: Path) -> None:
    assert main(["--part", "simulated", "--files", "60", "--partitions", "3", "--out", str(tmp_path)]) == 0
    [line] = json.loads((tmp_path / "hive-simulated.json").read_text())["lines"]
    assert line["event"] == "upgrade"
    assert line["mib"] >= line["mib_before"] > 0
