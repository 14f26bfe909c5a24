"""Modules of this installation as processes of their own."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from firn.embedded.errors import ServerMissing

SERVER_PACKAGES = ("catalog", "migrations", "optimizer", "server")
"""The packages that the distribution `firn-server` installs."""


def python_module(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of this installation; -P keeps a like-named directory at hand out of it."""
    return [sys.executable, "-P", "-m", module, *arguments]


def require_server(needed_by: str, *, extra: str = "") -> None:
    """Raise ServerMissing, which names the command and what to install, where only the client is installed.

    The check imports nothing: a command that only finds out that it cannot run stays fast.
    """
    if any(find_spec(package) is None for package in SERVER_PACKAGES):
        wanted = f"'firn-server[{extra}]'" if extra else "firn-server"
        raise ServerMissing(
            f"{needed_by} needs the Firn server, which is not installed. Install it: pip install {wanted}"
        )
