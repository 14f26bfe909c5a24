"""Prints the result of a dry run."""

from __future__ import annotations

from firn.cli.show import Show, size
from firn.protocol.answers.jobs import DryRunOut

_QUANTITIES = (("files", str), ("bytes", size), ("deletes", str))


def show_dry_run(show: Show, planned: DryRunOut) -> None:
    """Show the action of a job, the items that it would change, and the predicted gain."""
    show.line(f"would {planned.action}")
    rows = [(items.items, items.count, "" if items.bytes is None else size(items.bytes)) for items in planned.affected]
    if rows:
        show.table(("items", "count", "size"), rows, none="")
    for name, format_amount in _QUANTITIES:
        before, after = planned.gain.get(f"{name}_before"), planned.gain.get(f"{name}_after")
        if before is not None and after is not None and before != after:
            show.line(f"{name} that a full scan reads: {format_amount(before)} now, {format_amount(after)} after")
    if not planned.exact:
        show.line("some of these numbers are estimates")
    for note in planned.notes:
        show.note(note)
