"""Modules of this installation as processes of their own."""

from __future__ import annotations

import sys


def python_module(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of this installation; -P keeps a like-named directory at hand out of it."""
    return [sys.executable, "-P", "-m", module, *arguments]
