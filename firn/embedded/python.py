"""Commands that run modules of this installation as separate processes."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from firn.embedded.errors import ServerMissing

SERVER_PACKAGES = ("catalog", "migrations", "optimizer", "server")
"""The packages that the distribution `firn-server` installs."""


def python_module(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of this installation; -P ignores a directory of the same name."""
    return [sys.executable, "-P", "-m", module, *arguments]


def require_server(needed_by: str, *, extra: str = "") -> None:
    """Raise ServerMissing, which names the command and the package, if only the client is installed.

    The check imports nothing, so that the command fails fast.
    """
    if any(find_spec(package) is None for package in SERVER_PACKAGES):
        package_name = f"'firn-server[{extra}]'" if extra else "firn-server"
        raise ServerMissing(
            f"{needed_by} needs the Firn server, which is not installed. Install it: pip install {package_name}"
        )
