"""The notebooks of examples/ are valid, start with what one learns, and hold no results of a run."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def read_cells(notebook: Path) -> list[dict[str, Any]]:
    document = json.loads(notebook.read_text("utf-8"))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    cells: list[dict[str, Any]] = document["cells"]
    return cells


def test_the_list_names_every_notebook() -> None:
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    assert len(NOTEBOOKS) >= 4
    assert [notebook.name for notebook in NOTEBOOKS if f"({notebook.name})" not in listed] == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_is_valid(notebook: Path) -> None:
    cells = read_cells(notebook)
    first = "".join(cells[0]["source"])
    assert first.startswith("# ")
    assert "You learn" in first
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            ast.parse("".join(cell["source"]))
