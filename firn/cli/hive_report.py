"""The report of an upgrade check, and the column differences of an upgraded table, as tables of the terminal."""

from __future__ import annotations

from firn.cli.context import CliContext
from firn.cli.show import Show, moment, size
from firn.transport import Json

_WORST_FIRST = ("blocked", "warn", "ok")


def show_report(ctx: CliContext, report: Json) -> None:
    """Show a table's facts, its checks and its column differences."""
    show = ctx.show
    show.facts(
        {
            "table": report["table"],
            "new table": report["target"],
            "format": report["format"],
            "location": report["location"],
            "partitions": report["partitions"],
            "files": f"{report['files']:,} ({size(report['bytes'])})",
            "suggested key": _describe_suggestions(report["key_suggestions"]),
            "no key": _describe_disproved(report.get("disproved_keys", [])),
            "verdict": "can be upgraded" if report["eligible"] else "blocked",
        }
    )
    show_checks(show, report["checks"])
    show_column_differences(ctx, report["column_differences"])


def _describe_suggestions(suggestions: list[Json]) -> str | None:
    """Each key with its evidence, the best first."""
    keys = [f"{', '.join(key['columns'])} ({key['confidence']}: {'; '.join(key['evidence'])})" for key in suggestions]
    return ", or ".join(keys) or None


def _describe_disproved(keys: list[Json]) -> str | None:
    """Each key that sampled rows disprove, with the reason."""
    return "; ".join(f"{', '.join(key['columns'])} ({key['reason']})" for key in keys) or None


def show_checks(show: Show, checks: list[Json]) -> None:
    """Show each check on a line, the worst first, and its advice on the next line."""
    for check in sorted(checks, key=lambda check: _WORST_FIRST.index(check["status"])):
        show.line(f"{check['status']:<8}{check['message']}")
        if check["advice"]:
            show.line(f"        {check['advice']}")


def show_column_differences(ctx: CliContext, differences: list[Json]) -> None:
    """Show each column that differs, with both types, and the policy or person that decides."""
    rows = [
        (
            difference["column"],
            difference["hive"] or "none",
            difference["here"] or "none",
            difference["what"],
            f"{'needs a decision' if difference['is_conflict'] else 'not published yet'}: {difference['decided_by']}",
            moment(difference["since"]),
        )
        for difference in differences
    ]
    if rows:
        ctx.show.table(("column", "in Hive", "in Firn", "difference", "state", "since"), rows, none="")
