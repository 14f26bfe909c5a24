"""Visible progress: the step that runs and for how long, and the result of each step that has ended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text


@dataclass
class Step:
    """The result of a step, which the caller sets for the printed line."""

    result: str = ""


@dataclass
class Steps:
    """Prints each step as it ends; meanwhile a terminal counts its seconds, and a log has a line that it began."""

    console: Console = field(default_factory=lambda: Console(highlight=False))
    took: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def step(self, does: str) -> Iterator[Step]:
        """Run one step; the caller sets `result` of the yielded step."""
        step, began = Step(), time.monotonic()
        if not self.console.is_terminal:
            self.console.print(f"  {does} …")
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal) as progress:
            progress.add_task(f"{does} …", total=None)
            yield step
        seconds = time.monotonic() - began
        self.took.append((does, seconds))
        line = Text.assemble(("✓ ", "green"), f"{does:<58}", (f"{seconds:6.1f} s", "dim"), "  ", step.result)
        self.console.print(line, soft_wrap=True)

    def say(self, text: str) -> None:
        """A line between the steps."""
        self.console.print(Text(text), soft_wrap=True)

    def list(self, title: str, entries: Sequence[tuple[str, str]]) -> None:
        """A title and below it each entry with its explanation, in two columns."""
        width = max(len(entry) for entry, _ in entries)
        self.say(title)
        for entry, explanation in entries:
            self.say(f"  {entry:<{width}}  {explanation}")

    @property
    def seconds(self) -> float:
        """All steps together."""
        return sum(seconds for _, seconds in self.took)
