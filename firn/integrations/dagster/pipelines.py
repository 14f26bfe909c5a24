"""The tables of a pipeline that assets are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from firn.errors import FirnError
from firn.integrations.dagster.resource import FirnResource
from firn.integrations.runs import list_together
from firn.protocol.pipelines import PipelineOut


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineTable:
    """One table, NAMESPACE.TABLE. `together` are the tables that one run computes, if there are several."""

    name: str
    inputs: tuple[str, ...] = ()
    together: tuple[str, ...] = ()
    query: str = ""
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class PipelineTables:
    """A pipeline: its tables, each after those that it reads."""

    name: str
    catalog: str
    tables: tuple[PipelineTable, ...] = field(default=())

    def list_sets(self) -> Iterator[list[PipelineTable]]:
        """The tables of each run."""
        done = set[str]()
        for table in self.tables:
            if table.name not in done:
                members = {table.name, *table.together}
                done |= members
                yield [member for member in self.tables if member.name in members]


def load_pipeline(firn: FirnResource, name: str) -> PipelineTables:
    """The tables of a pipeline of a server, which has to answer when Dagster loads the definitions."""
    with firn.resolve().get_client() as client:
        return describe_pipeline(client.pipelines[name].show())


def describe_pipeline(pipeline: PipelineOut) -> PipelineTables:
    """The tables in a server's answer. FirnError for a pipeline without tables."""
    if not pipeline.tables:
        raise FirnError(f"pipeline {pipeline.name} has no tables that you may see")
    tables = []
    for table in pipeline.tables:
        definition = table.definition
        tables.append(
            PipelineTable(
                name=table.name,
                inputs=tuple(str(source) for source in definition.get("inputs") or ()),
                together=tuple(list_together(definition)),
                query=str(definition.get("query") or ""),
                fingerprint=definition.get("fingerprint"),
            )
        )
    return PipelineTables(pipeline.name, pipeline.catalog, tuple(tables))
