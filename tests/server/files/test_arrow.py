"""What lies elsewhere is reached through PyArrow, and only what lies elsewhere costs its import."""

from __future__ import annotations

import subprocess
import sys

_ASKED = "import sys, server.__main__; print([name for name in ('pyarrow', 'pandas') if name in sys.modules])"


def test_a_server_starts_without_pyarrow() -> None:
    """It is a third of the start of every server and of every worker."""
    process = subprocess.run([sys.executable, "-c", _ASKED], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"
