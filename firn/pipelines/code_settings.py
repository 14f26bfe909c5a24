"""What `firn-pipeline.yml` says about the Python of a table: `transforms`, `reads` and `scope`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from firn.protocol.pipeline_code import MOST_TRANSFORMS, CodeFunction, CodeScope, CodeTransform
from firn.yaml_reading import Section

_REFERENCE = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)", re.ASCII)


@dataclass(frozen=True)
class CodeSettings:
    """The chain of transforms; the tables that Python reads, None if its text says so; and the promise `scope`."""

    transforms: tuple[CodeTransform, ...] = ()
    reads: tuple[str, ...] | None = None
    scope: tuple[str, ...] = ()
    line: int = 0


NO_CODE = CodeSettings()


def read_code_settings(section: Section) -> CodeSettings:
    """Read them of a table. Raises Invalid with the line of what is wrong."""
    entries = section.sections("transforms")
    if len(entries) > MOST_TRANSFORMS:
        raise section.field_error("transforms", f"{len(entries)} transforms; {MOST_TRANSFORMS} are allowed")
    reads = section.texts("reads") if section.has("reads") else None
    scope = tuple(name.lower() for name in section.texts("scope"))
    return CodeSettings(tuple(_read_transform(entry) for entry in entries), reads, scope, section.line)


def _read_transform(entry: Section) -> CodeTransform:
    function = read_function(entry, "python")
    if not entry.has("scope"):
        hint = "row: a row of the result depends on one row; key: on the rows of its key; all: on any"
        raise entry.error("a transform needs scope", hint=hint)
    scope = CodeScope(entry.choice("scope", [str(scope) for scope in CodeScope], "all"))
    entry.finish()
    return CodeTransform(function=function, scope=scope)


def read_function(entry: Section, field: str) -> CodeFunction:
    """`package.module:function` as the path of a file and the function's name."""
    text = entry.require(field)
    match = _REFERENCE.fullmatch(text)
    if match is None or len(text) > 255:
        hint = 'write "transforms.enrich:transform" for the function `transform` of transforms/enrich.py'
        raise entry.field_error(field, f"{text[:80]!r} names no function", hint=hint)
    return CodeFunction(path=f"{match['module'].replace('.', '/')}.py", name=match["name"])
