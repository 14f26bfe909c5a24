"""Output: JSON for programs, tables for people, plain text without a terminal; progress on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from typing import Any, Protocol, TypeVar

import orjson
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

T = TypeVar("T")

PIPE_WIDTH = 10_000
"""Lines in a pipe are not wrapped, so that the program behind it gets whole names."""
_STYLES: Mapping[str, str] = {
    "succeeded": "green",
    "upgraded": "green",
    "eligible": "green",
    "ok": "green",
    "running": "cyan",
    "committing": "cyan",
    "upgrading": "cyan",
    "waiting": "yellow",
    "paused": "yellow",
    "pending": "yellow",
    "warn": "yellow",
    "unknown": "magenta",
    "failed": "red",
    "blocked": "red",
    "canceled": "dim",
    "nothing to do": "dim",
}


class ProgressCallback(Protocol):
    """Called with each new state of running work: (stage, done, total), and more text."""

    def __call__(self, stage: str, done: int, total: int, more: str = "", /) -> None: ...


@dataclass(frozen=True)
class Show:
    """The output of one command."""

    json: bool = False

    @cached_property
    def console(self) -> Console:
        """Standard output."""
        return _console(sys.stdout)

    @cached_property
    def notes(self) -> Console:
        """Standard error: progress and notes, which are not for programs."""
        return _console(sys.stderr)

    def emit(self, value: Any, people: Callable[[], None]) -> None:
        """Print the command's result: JSON for programs, or call `people`, which prints it for people."""
        if self.json:
            self.write_json(value)
        else:
            people()

    def write_json(self, value: Any) -> None:
        """Write one JSON value to standard output."""
        # A query may return values that JSON lacks: maps with numbers as keys, rows in rows, bytes.
        options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
        sys.stdout.write(orjson.dumps(value, default=_plain, option=options).decode() + "\n")

    def line(self, text: str) -> None:
        """Print one line for people."""
        self.console.print(Text(text), soft_wrap=True)

    def note(self, text: str) -> None:
        """Print a note for people on standard error."""
        if not self.json:
            self.notes.print(Text(text), soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a note that nobody may miss, such as a new secret, on standard error; also with --json."""
        self.notes.print(Text(text), soft_wrap=True)

    def first(self, items: Iterable[T], limit: int) -> list[T]:
        """The first `limit` items. If there are more, a note on standard error says so, also with --json."""
        kept = list(islice(items, limit + 1))
        if len(kept) > limit:
            self.notes.print(Text(f"only the first {limit:,}; --limit shows more"), soft_wrap=True)
        return kept[:limit]

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, none: str) -> None:
        """Print rows under headings, or the text `none` without any rows."""
        if not rows:
            self.line(none)
            return
        shown = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
        for position, column in enumerate(columns):
            numeric = all(isinstance(row[position], int | float) for row in rows)
            shown.add_column(column, justify="right" if numeric else "left", overflow="fold")
        for row in rows:
            shown.add_row(*(cell(value) for value in row))
        self.console.print(shown)

    def facts(self, pairs: Mapping[str, Any]) -> None:
        """Print names and values, one pair on a line; pairs with the value None are left out."""
        kept = {name: value for name, value in pairs.items() if value is not None}
        width = max(map(len, kept), default=0)
        for name, value in kept.items():
            self.console.print(Text.assemble((name.ljust(width), "bold"), "  ", cell(value)), soft_wrap=True)

    @property
    def has_bars(self) -> bool:
        """Whether the output is on a terminal, so that progress bars make sense."""
        return not self.json and self.notes.is_terminal

    @contextmanager
    def progress(self, title: str) -> Iterator[ProgressCallback]:
        """Show a progress bar. The caller reports each state to the callback that the context manager yields.

        Without a terminal each new stage is a line; with --json nothing is printed.
        """
        if not self.has_bars:
            yield _stage_lines(self, title)
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
        with Progress(*columns, TimeElapsedColumn(), console=self.notes, transient=True) as bar:
            task = bar.add_task(title, total=None)

            def report(stage: str, done: int, total: int, more: str = "") -> None:
                description = ": ".join(part for part in (title, stage) if part)
                description = f"{description} ({more})" if more else description
                bar.update(task, description=escape(description), completed=done, total=total or None)

            yield report


def _stage_lines(show: Show, title: str) -> ProgressCallback:
    printed: list[str] = []

    def report(stage: str, _done: int, _total: int, _more: str = "") -> None:
        if stage and stage not in printed:
            printed.append(stage)
            show.note(f"{title}: {stage}")

    return report


def _plain(value: Any) -> Any:
    """Convert a value that JSON lacks: Spark's rows to objects, bytes to hexadecimal, all others to text."""
    if isinstance(value, bytes | bytearray):
        return value.hex()
    as_dict = getattr(value, "asDict", None)
    return str(value) if as_dict is None else as_dict()


def _console(file: Any) -> Console:
    console = Console(file=file, highlight=False)
    return console if console.is_terminal else Console(file=file, highlight=False, width=PIPE_WIDTH)


def cell(value: Any) -> Text:
    """Format one value for people."""
    match value:
        case None:
            return Text("–", style="dim")
        case bool():
            return Text("yes" if value else "no")
        case int():
            return Text(f"{value:,}")
        case float():
            return Text(f"{value:,.2f}")
        case datetime():
            return Text(moment(value))
        case list() | tuple():
            return Text(", ".join(map(str, value)) or "–")
        case _:
            return Text(str(value), style=_STYLES.get(str(value), ""))


def moment(value: datetime | str | None) -> str:
    """Format a time to the second, in the user's time zone."""
    if value is None:
        return "–"
    parsed = datetime.fromisoformat(value) if isinstance(value, str) else value
    with_zone = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return with_zone.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def size(count: int) -> str:
    """Format a number of bytes with a suitable unit."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if amount < 1024 or unit == "PiB":
            break
        amount /= 1024
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
