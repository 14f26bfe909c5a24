"""Without sqlglot, which is an extra, commands of pipelines say what to install, and all others work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = "import sys; sys.modules['sqlglot'] = None; from firn.cli import app; sys.exit(app.run(sys.argv[1:]))"


def test_a_command_without_sqlglot_names_the_extra(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "pipeline", "validate", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == ["firn: sqlglot is not installed", "      pip install 'firn[pipelines]'"]
