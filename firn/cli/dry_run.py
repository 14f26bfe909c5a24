"""Dry runs, as people read them."""

from __future__ import annotations

from firn.cli.show import Show, size
from firn.protocol.answers.jobs import DryRunOut

_SHOWN = (("files", str), ("bytes", size), ("deletes", str))


def show_dry_run(show: Show, planned: DryRunOut) -> None:
    """What a job would do, to what, and what would be gained."""
    show.line(f"would {planned.action}")
    rows = [(one.items, one.count, "" if one.bytes is None else size(one.bytes)) for one in planned.affected]
    if rows:
        show.table(("what", "count", "size"), rows, none="")
    for name, written in _SHOWN:
        before, after = planned.gain.get(f"{name}_before"), planned.gain.get(f"{name}_after")
        if before is not None and after is not None and before != after:
            show.line(f"{name} that a full scan reads: {written(before)} now, {written(after)} after")
    if not planned.exact:
        show.line("some of these numbers are estimates")
    for note in planned.notes:
        show.note(note)
