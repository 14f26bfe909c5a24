"""The order of a pipeline's tables: each after the tables of the pipeline that it reads."""

from __future__ import annotations

from collections.abc import Mapping

from firn.pipelines.definition import Definition
from firn.pipelines.errors import InvalidDefinition, Place
from firn.pipelines.parsing import find_place
from firn.pipelines.tables import find_tables, table_name
from firn.protocol.pipeline_outputs import OutputMode


def order_definitions(
    definitions: Mapping[str, Definition],
) -> tuple[dict[str, Definition], list[InvalidDefinition]]:
    """The definitions in order, without those that read themselves, and a problem for each cycle."""
    ordered: dict[str, Definition] = {}
    problems: list[InvalidDefinition] = []
    reads = {name: _list_sources(definition) for name, definition in definitions.items()}
    waiting = dict(definitions)
    while waiting:
        ready = [name for name in waiting if not any(source in waiting for source in reads[name])]
        for name in ready:
            ordered[name] = waiting.pop(name)
        if not ready:
            cycle = _find_cycle(waiting, reads)
            problems.append(_refuse_cycle(waiting[cycle[0]], cycle, reads))
            for name in cycle:
                del waiting[name]
    return ordered, problems


def read_inputs(definition: Definition) -> dict[str, Place]:
    """The tables that a definition reads, with the place of the first reference to each."""
    places: dict[str, Place] = {}
    for table in find_tables(definition.query):
        places.setdefault(table_name(table), find_place(table))
    return places


def _list_sources(definition: Definition) -> dict[str, Place]:
    """The tables that have to be planned before. A table of others, whose columns a query fills, it may read."""
    fills = definition.mode is OutputMode.COLUMNS
    inputs = read_inputs(definition).items()
    return {name: place for name, place in inputs if not (fills and name == definition.name)}


def _find_cycle(waiting: Mapping[str, Definition], reads: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Tables of which each reads the next, and the last reads the first."""
    path = [next(iter(waiting))]
    while True:
        following = next(source for source in reads[path[-1]] if source in waiting)
        if following in path:
            return path[path.index(following) :]
        path.append(following)


def _refuse_cycle(
    definition: Definition, cycle: list[str], reads: Mapping[str, Mapping[str, Place]]
) -> InvalidDefinition:
    place = reads[cycle[0]][cycle[1 % len(cycle)]]
    if len(cycle) == 1:
        return InvalidDefinition.at(place, f"{cycle[0]} reads itself").in_file(definition.path)
    path = " → ".join([*cycle, cycle[0]])
    return InvalidDefinition.at(place, f"the tables read each other: {path}").in_file(definition.path)
