"""Output: JSON for programs, tables for people, plain where no terminal reads; progress on standard error."""

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
"""Lines in a pipe are as long as what they say: the program behind it must not get cut names."""
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


class Seen(Protocol):
    """Called with each state of work that goes on."""

    def __call__(self, stage: str, done: int, total: int, more: str = "", /) -> None: ...


@dataclass(frozen=True)
class Show:
    """Where one command's output goes."""

    json: bool = False

    @cached_property
    def console(self) -> Console:
        """Standard output."""
        return _console(sys.stdout)

    @cached_property
    def notes(self) -> Console:
        """Standard error: progress and remarks, which no program should read."""
        return _console(sys.stderr)

    def emit(self, value: Any, people: Callable[[], None]) -> None:
        """The command's answer, as JSON or as people read it."""
        if self.json:
            self.write_json(value)
        else:
            people()

    def write_json(self, value: Any) -> None:
        """One JSON value on standard output."""
        # A query may give what JSON has not: maps with numbers for keys, rows in rows, bytes.
        options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
        sys.stdout.write(orjson.dumps(value, default=_plain, option=options).decode() + "\n")

    def line(self, text: str) -> None:
        """One line for people."""
        self.console.print(Text(text), soft_wrap=True)

    def note(self, text: str) -> None:
        """One remark for people, away from the output."""
        if not self.json:
            self.notes.print(Text(text), soft_wrap=True)

    def once(self, text: str) -> None:
        """A remark that nobody may miss, such as a new secret: with --json, too, it is on standard error."""
        self.notes.print(Text(text), soft_wrap=True)

    def first(self, found: Iterable[T], limit: int) -> list[T]:
        """No more than were asked for; programs, too, are told on standard error when there are others."""
        kept = list(islice(found, limit + 1))
        if len(kept) > limit:
            self.notes.print(Text(f"only the first {limit:,}; --limit shows more"), soft_wrap=True)
        return kept[:limit]

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, none: str) -> None:
        """Rows under headings; `none` says it in words when there are none."""
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
        """Names and values, one a line; what is None is left out."""
        kept = {name: value for name, value in pairs.items() if value is not None}
        width = max(map(len, kept), default=0)
        for name, value in kept.items():
            self.console.print(Text.assemble((name.ljust(width), "bold"), "  ", cell(value)), soft_wrap=True)

    @property
    def has_bars(self) -> bool:
        """Whether somebody looks at a terminal."""
        return not self.json and self.notes.is_terminal

    @contextmanager
    def progress(self, what: str) -> Iterator[Seen]:
        """A bar while work goes on: call what comes out of it with (stage, done, total), and more in words.

        Without a terminal each new stage is a line; with --json there is nothing.
        """
        if not self.has_bars:
            yield _stage_lines(self, what)
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
        with Progress(*columns, TimeElapsedColumn(), console=self.notes, transient=True) as bar:
            task = bar.add_task(what, total=None)

            def seen(stage: str, done: int, total: int, more: str = "") -> None:
                described = ": ".join(part for part in (what, stage) if part)
                described = f"{described} ({more})" if more else described
                bar.update(task, description=escape(described), completed=done, total=total or None)

            yield seen


def _stage_lines(show: Show, what: str) -> Seen:
    told: list[str] = []

    def seen(stage: str, _done: int, _total: int, _more: str = "") -> None:
        if stage and stage not in told:
            told.append(stage)
            show.note(f"{what}: {stage}")

    return seen


def _plain(value: Any) -> Any:
    """What JSON has for a value that it has not: Spark's rows as objects, bytes in hexadecimal, the rest as text."""
    if isinstance(value, bytes | bytearray):
        return value.hex()
    as_dict = getattr(value, "asDict", None)
    return str(value) if as_dict is None else as_dict()


def _console(file: Any) -> Console:
    console = Console(file=file, highlight=False)
    return console if console.is_terminal else Console(file=file, highlight=False, width=PIPE_WIDTH)


def cell(value: Any) -> Text:
    """One value as people read it."""
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
    """A time, in the reader's own zone, to the second."""
    if value is None:
        return "–"
    parsed = datetime.fromisoformat(value) if isinstance(value, str) else value
    known = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return known.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def size(count: int) -> str:
    """Bytes with a unit that leaves a handy number."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if amount < 1024 or unit == "PiB":
            break
        amount /= 1024
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
