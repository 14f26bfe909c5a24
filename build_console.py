"""Build hook: a wheel carries the built console beside the server that serves it.

An editable install does not: there the server finds the console where its build leaves it, in web/dist.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ConsoleHook(BuildHookInterface):  # type: ignore[type-arg]  # generic over a config class that this hook ignores
    """Adds web/dist to the wheel as server/console.

    A standard wheel without a console would answer its first page with an error, so a missing build stops the build.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        console = Path(self.root, "web", "dist")
        if not (console / "index.html").is_file():
            raise FileNotFoundError(f"{console} holds no built console; run: make console")
        build_data["force_include"][str(console)] = "server/console"
