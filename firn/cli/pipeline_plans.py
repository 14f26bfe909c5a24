"""`firn pipeline plan --analyze`: what the next runs on the server do, and what has changed since the last ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from firn import pipelines
from firn.cli.context import CliContext
from firn.cli.show import moment, size
from firn.cli.watch import format_span
from firn.protocol.pipeline_plan import InputPlanOut, NextMode, PipelinePlanOut, RunPlanOut


def analyze(ctx: CliContext, folder: Path, table: str | None) -> PipelinePlanOut:
    """Plan the next runs of the pipeline of a folder; of the pipeline of this name, where there is no such folder."""
    name = pipelines.read_folder(folder).name if folder.is_dir() else str(folder)
    planned = ctx.client.pipelines[name].plan(table)
    ctx.show.emit(planned.json_value(), lambda: _show(ctx, planned))
    return planned


def _show(ctx: CliContext, planned: PipelinePlanOut) -> None:
    for run in planned.tables:
        for line in explain_run(run):
            ctx.show.line(line)


def explain_run(run: RunPlanOut) -> list[str]:
    """The lines that say what the next run of a table does."""
    lines = [f"{run.table}  {_describe_mode(run)}"]
    rows = [(entry.table, _describe_changes(entry), "; ".join(entry.terms)) for entry in run.inputs]
    names, changes = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
    is_explained = run.mode in (NextMode.INCREMENTAL, NextMode.FULL)
    for name, changed, terms in rows:
        lines.append(f"  {name:{names}}  {changed:{changes}}  {terms if is_explained else ''}".rstrip())
    if run.since is not None:
        lines.append(f"  since the checkpoint of {moment(run.since)}")
    if run.chunks:
        lines.append("  the run computes a part of a backfill, too")
    if run.max_commits is not None:
        lines.append(f"  a run takes at most {run.max_commits:,} new commits, and the next one continues")
    lines += [f"  {line}" for line in _describe_cost(run)]
    if run.blocked is not None:
        lines.append(f"  no run can begin now: {run.blocked}")
    return lines


def _describe_mode(run: RunPlanOut) -> str:
    policy = "" if run.refresh == "auto" else f"  {run.refresh}"
    if run.mode == NextMode.INCREMENTAL:
        part = " (its key)" if run.key and set(run.scope) == set(run.key) else ""
        return f"incremental, scope {', '.join(run.scope)}{part}{policy}"
    if run.reason is None:
        return f"{run.mode}{policy}"
    return f"{run.mode}: {run.reason}{policy}"


def _describe_changes(entry: InputPlanOut) -> str:
    if entry.total_bytes is None:
        return "does not exist"
    if entry.is_changed is None:
        return f"all {size(entry.total_bytes)}"
    if not entry.is_changed:
        return "not changed"
    if entry.commits is None:
        return "changed"
    counts = [
        _count(entry.files, "file"),
        None if entry.bytes is None else size(entry.bytes),
        _count(entry.rows, "row"),
    ]
    return f"{_count(entry.commits, 'commit')} ({', '.join(filter(None, counts))})"


def _describe_cost(run: RunPlanOut) -> Iterator[str]:
    parts = []
    if run.incremental_bytes is not None and run.full_bytes is not None:
        parts.append(f"reads about {size(run.incremental_bytes)}, in full {size(run.full_bytes)}")
    if run.predicted_seconds is not None and run.mode not in (NextMode.NOTHING, NextMode.FAILS):
        parts.append(f"at most {format_span(run.predicted_seconds)} predicted")
    if run.full_seconds is not None:
        parts.append(f"the last full run took {format_span(run.full_seconds)}")
    if parts:
        yield "; ".join(parts)


def _count(number: int | None, word: str) -> str | None:
    if number is None:
        return None
    return f"1 {word}" if number == 1 else f"{number:,} {word}s"
