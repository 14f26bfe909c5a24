"""Run one long command of the Makefile and show how long it has been running.

    python3 build_step.py "installing the Python packages" COMMAND…

On a terminal the line counts seconds until the command ends; elsewhere it prints one line at the start, one every 15
seconds and one at the end. The command's own output is shown only if the command fails. Standard library only: `make
setup` runs this before anything is installed.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import IO

TICK_SECONDS = 0.5
LINE_SECONDS = 15
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def run(title: str, command: Sequence[str], out: IO[str], *, terminal: bool) -> int:
    """Run the command; its exit code."""
    environment = {**os.environ, "NO_COLOR": "1", "FORCE_COLOR": "0"}
    began, printed = time.monotonic(), 0.0
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        _write(out, f"{title} …", terminal=terminal)
        while True:
            try:
                code = process.wait(TICK_SECONDS)
                break
            except subprocess.TimeoutExpired:
                elapsed = time.monotonic() - began
                if terminal or elapsed - printed >= LINE_SECONDS:
                    printed = elapsed
                    _write(out, f"{title} … {elapsed:.0f} s", terminal=terminal)
            except KeyboardInterrupt:
                process.send_signal(signal.SIGINT)
        elapsed = time.monotonic() - began
        _write(out, f"{title}: {'done' if code == 0 else 'FAILED'} after {elapsed:.0f} s", terminal=terminal)
        out.write("\n" if terminal else "")
        if code:
            output.seek(0)
            out.write(ESCAPES.sub("", output.read().decode(errors="replace")))
    out.flush()
    return code


def _write(out: IO[str], text: str, *, terminal: bool) -> None:
    out.write(f"\r\x1b[K{text}" if terminal else f"{text}\n")
    out.flush()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:], sys.stdout, terminal=sys.stdout.isatty() and not os.environ.get("CI")))
