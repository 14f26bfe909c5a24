"""The page of the import from Hudi Streamer: its files are imported, and its commands print what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.command_line import Command
from tests.docs.blocks import DOCS

PAGE = (DOCS / "pipelines-from-hudi.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def test_the_commands_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    transformer, view, table = blocks("sql")
    settings, inputs = blocks("yaml")
    old = tmp_path / "hudi"
    old.mkdir()
    (old / "city_trip.sh").write_text(blocks("bash")[0])
    (old / "city_trip.properties").write_text(blocks("properties")[0])
    (old / "city_trip.sql").write_text(transformer)
    (tmp_path / "inputs.yml").write_text(inputs)
    run = Command("http://127.0.0.1:9")
    for text in blocks("text"):
        line, _, shown = text.partition("\n")
        assert run(*line.removeprefix("$ firn ").split()).out == shown
        (tmp_path / "trips" / "transformations" / "city_trip_2.sql").write_text(view)
    assert (tmp_path / "trips" / "transformations" / "mart_city_trip.sql").read_text("utf-8") == table
    assert (tmp_path / "trips" / "firn-pipeline.yml").read_text("utf-8") == settings
