"""Sets of tables that move together: the jobs of the first one run all of them (docs/protocols.md, rule 8.15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catalog.names import TableName
from catalog.pipelines.pipeline import PipelineTable, PipelineTableId
from catalog.pipelines.trigger import NextRun
from catalog.pipelines.versions import parse_set


def list_members(tables: Sequence[PipelineTable], table: PipelineTable) -> list[PipelineTable]:
    """The tables that one run computes with this one, in the order of their set; it alone without a set.

    `tables` are those of its pipeline.
    """
    return _list_members({entry.name: entry for entry in tables}, table)


def find_subjects(tables: Sequence[PipelineTable]) -> dict[PipelineTableId, PipelineTableId]:
    """For each table of a pipeline the one whose jobs run it: the first one of its set, or itself."""
    by_name = {entry.name: entry for entry in tables}
    return {table.id: _list_members(by_name, table)[0].id for table in tables}


def share_next_runs(tables: Sequence[PipelineTable], planned: Mapping[str, NextRun]) -> dict[str, NextRun]:
    """The next runs by name, where each table of a set has the earliest one of the set."""
    by_name, shared = {entry.name: entry for entry in tables}, dict(planned)
    for table in tables:
        names = [str(member.name) for member in _list_members(by_name, table)]
        runs = [planned[name] for name in names if name in planned]
        if runs:
            shared[str(table.name)] = min(runs, key=lambda run: run.at)
    return shared


def _list_members(by_name: Mapping[TableName, PipelineTable], table: PipelineTable) -> list[PipelineTable]:
    members = [by_name[name] for name in parse_set(table.definition) if name in by_name]
    return members or [table]
