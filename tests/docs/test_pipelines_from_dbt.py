"""The page of the import from dbt: its project is compiled, and its commands print what it shows."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.command_line import Command
from tests.docs.blocks import DOCS

PROJECT = Path(__file__).parent / "dbt_shop"
"""What `dbt compile --full-refresh` (1.11) made of the page's project, less the fields that Firn does not read."""
PAGE = (DOCS / "pipelines-from-dbt.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def test_its_models_are_those_that_were_compiled() -> None:
    nodes = json.loads((PROJECT / "target" / "manifest.json").read_text("utf-8"))["nodes"]
    compiled = [nodes[f"model.shop.{name}"]["raw_code"] + "\n" for name in ("driver_daily", "paid_trip")]
    assert compiled == blocks("jinja")


def test_the_commands_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(PROJECT, tmp_path / "shop")
    settings, inputs = blocks("yaml")
    (tmp_path / "inputs.yml").write_text(inputs)
    run = Command("http://127.0.0.1:9")
    for text in blocks("text"):
        line, _, shown = text.removeprefix("$ dbt compile --full-refresh\n").partition("\n")
        assert run(*line.removeprefix("$ firn ").split()).out == shown
    assert (tmp_path / "orders" / "firn-pipeline.yml").read_text("utf-8") == settings
