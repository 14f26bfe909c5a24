"""Visible progress: what is being done, what came of it, how long it took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.text import Text


@dataclass
class Step:
    """What a step wants to be told about it."""

    found: str = ""


@dataclass
class Steps:
    """Prints each step as it ends; on a terminal a spinner turns meanwhile."""

    console: Console = field(default_factory=lambda: Console(highlight=False))
    took: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def step(self, does: str) -> Iterator[Step]:
        """One step; set `found` to what came of it."""
        step, began = Step(), time.monotonic()
        with self.console.status(f"{does} …"):
            yield step
        seconds = time.monotonic() - began
        self.took.append((does, seconds))
        line = Text.assemble(("✓ ", "green"), f"{does:<44}", (f"{seconds:6.1f} s", "dim"), "  ", step.found)
        self.console.print(line, soft_wrap=True)

    def say(self, text: str) -> None:
        """A line between the steps."""
        self.console.print(Text(text), soft_wrap=True)

    @property
    def seconds(self) -> float:
        """All steps together."""
        return sum(seconds for _, seconds in self.took)
