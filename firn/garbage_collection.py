"""Garbage collection waits while a program imports its modules.

Modules are no garbage. To look for some among them, again and again, took a quarter of the CPU time of a start. A
program imports this module before the others, and calls `resume` after them.
"""

from __future__ import annotations

import gc

gc.disable()


def resume() -> None:
    """Let garbage collection go on. It never looks at the modules that are there by now."""
    gc.freeze()
    gc.enable()
