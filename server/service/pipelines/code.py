"""Python of pipelines in the server: it is text that the server stores, hands to optimizers, and never runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from catalog.errors import Conflict, InvalidDefinition
from catalog.pipelines.pipeline import Pipeline, PipelineTable
from firn.protocol.pipeline_code import MOST_CODE, CodeFile
from firn.protocol.pipelines import PipelineFile, PutPipeline, TableDefinition

FORBIDDEN = "this server allows no Python in pipelines (pipelines.allow_code)"
_HINT = "write SQL, or let an administrator allow it: docs/pipelines.md#python"


def check_new_code(body: PutPipeline, *, allowed: bool) -> None:
    """Raise InvalidDefinition for code that the server does not allow, and for code without its files."""
    texts = {file.path: file.text for file in body.files if file.path.endswith(".py")}
    for definition in body.tables:
        place = f"{definition.path}, line {definition.line}"
        if not definition.inputs and definition.code is None:
            raise InvalidDefinition(f"{definition.name} reads no table ({place})")
        if not definition.has_code:
            continue
        if not allowed:
            raise InvalidDefinition(f"{definition.name} is computed by Python ({place}), and {FORBIDDEN}", hint=_HINT)
        missing = [path for path in _list_paths(definition) if path not in texts]
        if missing:
            raise InvalidDefinition(f"{definition.name} needs {missing[0]}, which is no Python file of the folder")
    size = sum(map(len, texts.values()))
    if size > MOST_CODE:
        raise InvalidDefinition(
            f"the Python files have {size:,} characters; {MOST_CODE:,} are allowed", hint="split the pipeline"
        )


def check_code(pipeline: Pipeline, table: PipelineTable, *, allowed: bool) -> None:
    """Raise Conflict for a run of code that the server does not allow any more."""
    if table.definition.has_code and not allowed:
        raise Conflict(f"{table.name} of pipeline {pipeline.name} is computed by Python, and {FORBIDDEN}", hint=_HINT)


def list_modules(files: Iterable[PipelineFile], definitions: Sequence[TableDefinition]) -> list[CodeFile]:
    """The Python files that a run of these tables needs."""
    paths = {path for definition in definitions for path in _list_paths(definition)}
    return [CodeFile(path=file.path, text=file.text) for file in files if file.path in paths]


def _list_paths(definition: TableDefinition) -> list[str]:
    code, validators = definition.code, definition.validators
    paths = [] if code is None else [*code.modules, *(function.path for function in code.list_functions())]
    for validator in validators:
        paths += validator.modules
        paths += [] if validator.function is None else [validator.function.path]
    return list(dict.fromkeys(paths))
