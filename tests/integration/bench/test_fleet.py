"""The fleet benchmark runs as its command says, at a size at which its seconds mean nothing; it needs no Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import fleet
from firn.protocol.tables import Sort


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_fleet(tmp_path: Path, database: str) -> None:
    sizes = ["--tables", "300", "--seconds", "1", "--clients", "2", "--rounds", "3", "--databases", database]
    assert fleet.main([*sizes, "--out", str(tmp_path)]) == 0
    lines = json.loads((tmp_path / "fleet.json").read_text())["lines"]
    assert lines[1] == {**lines[1], "event": "looks", "tables": 300}
    assert {line["sort"] for line in lines if line["event"] == "page"} == set(Sort)
    (busy,) = (line for line in lines if line["event"] == "busy")
    assert busy["commits_per_second"] > 0
    assert busy["rounds"] > 0
    with_looks, without = (line["per_second"] for line in lines if line["event"] == "commits")
    assert min(with_looks, without) > 0
