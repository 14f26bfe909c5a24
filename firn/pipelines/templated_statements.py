"""The statements of a SQL file, with or without Jinja; all places are those of the file as it was written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from firn.lazy_names import load_name
from firn.pipelines.errors import InvalidDefinition, Place
from firn.pipelines.parsing import set_place, start_of
from firn.pipelines.statements import Statement, read_statements

if TYPE_CHECKING:
    from firn.pipelines.templates import Reference, Rendered

_SIGNS = ("{{", "{%")
_TEMPLATES = {"firn.pipelines.templates": ("render",)}
"""jinja2 costs time that most folders need not spend."""


def read_file(text: str, variables: Mapping[str, Any]) -> tuple[Iterator[Statement], tuple[Reference, ...]]:
    """The statements of a file, and the tables that its `ref()` name. Raises InvalidDefinition with line and column."""
    if not any(sign in text for sign in _SIGNS):
        return read_statements(text), ()
    render = cast("Callable[[str, Mapping[str, Any]], Rendered]", load_name(__name__, _TEMPLATES, "render"))
    rendered = render(text, variables)
    return _read_rendered(rendered), rendered.references


def _read_rendered(rendered: Rendered) -> Iterator[Statement]:
    try:
        for statement in read_statements(rendered.text):
            yield _move(statement, rendered)
    except InvalidDefinition as problem:
        place = rendered.find_source(Place(problem.line, problem.column))
        raise InvalidDefinition.at(place, problem.reason, hint=problem.hint) from problem


def _move(statement: Statement, rendered: Rendered) -> Statement:
    """The statement with the places of the file instead of those of the text that the template gave."""
    for node in statement.query.walk():
        start = start_of(node)
        if start is not None:
            set_place(node, rendered.find_source(start))
    properties = {
        name: (value, rendered.find_source(Place(line)).line or line)
        for name, (value, line) in statement.properties.items()
    }
    return replace(
        statement, line=rendered.find_source(Place(statement.line)).line or statement.line, properties=properties
    )
