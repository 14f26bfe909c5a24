"""What a background task reports, in words for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from catalog.ports.tickets import TicketStatus
from server.api.operations import describe_status


@dataclass(frozen=True)
class Report:
    tables: int = 0
    import_entries: int = 0
    planned: int = 0
    catalogs: Sequence[str] = ()


def test_counts_agree_with_their_names_and_zeros_are_left_out() -> None:
    assert describe_status(Report(tables=1, import_entries=1, planned=1)) == "1 table, 1 import entry, 1 planned"
    assert (
        describe_status(Report(tables=2_000, import_entries=2, catalogs=["a"]))
        == "2,000 tables, 2 import entries, 1 catalog"
    )
    assert describe_status(Report()) == "nothing to do"


def test_names_and_times_are_shown_after_what_they_are() -> None:
    expiry = datetime(2026, 11, 27, 8, 37, 13, 113917, tzinfo=UTC)
    assert (
        describe_status(TicketStatus(principal="firn@EXAMPLE.COM", expires_at=expiry))
        == "principal firn@EXAMPLE.COM, expires at 2026-11-27 08:37 UTC"
    )


def test_a_task_that_has_not_run_reports_nothing() -> None:
    assert describe_status(None) is None


def test_the_console_has_a_title_for_each_task() -> None:
    root = Path(__file__).parents[3]
    names = set(re.findall(r'name="(\w+)",', (root / "server/background/registry.py").read_text(encoding="utf-8")))
    titles = set(re.findall(r"^  (\w+): '", (root / "web/src/lib/tasks.ts").read_text(encoding="utf-8"), re.MULTILINE))
    assert "pipelines" in names
    assert names == titles
