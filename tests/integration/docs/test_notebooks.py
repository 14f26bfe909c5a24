"""The notebooks of examples/, each run as its reader runs it: in a Python of its own, with `firn up` beside it."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from firn.local import LocalFirn

EXAMPLES = Path(__file__).parents[3] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
LONGEST_SECONDS = 600

pytestmark = pytest.mark.spark


def write_program(notebook: Path) -> str:
    """The cells of code, one after another; what a cell ends with is shown, as a notebook does."""
    lines = ["show = lambda value: getattr(value, '_repr_html_', lambda: repr(value))()"]
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        *statements, last = tree.body
        lines += [ast.unparse(statement) for statement in statements]
        lines.append(f"print(show({ast.unparse(last)}))" if isinstance(last, ast.Expr) else ast.unparse(last))
    return "\n".join(lines)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_runs_from_its_first_cell_to_its_last(local: LocalFirn, tmp_path: Path, notebook: Path) -> None:
    program = tmp_path / f"{notebook.stem}.py"
    program.write_text(write_program(notebook), "utf-8")
    environment = {
        **os.environ,
        "FIRN_URL": local.url,
        "PYTHONPATH": os.pathsep.join([str(EXAMPLES), str(EXAMPLES.parent)]),
    }
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    assert "<svg" in done.stdout
