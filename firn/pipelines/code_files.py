"""The Python files of definitions: which ones a table needs, and whether its code fits the way it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from firn.pipelines.definition import Definition
from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.python_files import has_function, parse_python
from firn.pipelines.python_modules import find_modules
from firn.protocol.pipeline_code import CodeFunction, CodeScope
from firn.protocol.pipeline_outputs import OutputMode


def load_code(
    definitions: Mapping[str, Definition],
    load: Callable[[str], str | None],
    namespace: str | None,
    problems: list[InvalidDefinition],
) -> dict[str, Definition]:
    """The definitions with the files of their code. One whose files are wrong is left out, with a problem.

    `namespace` belongs to names in the code that have none.
    """
    loaded: dict[str, Definition] = {}
    for name, definition in definitions.items():
        try:
            loaded[name] = _load_validators(_load_table(definition, load, namespace), load)
        except InvalidDefinition as problem:
            problems.append(problem.in_file(definition.path))
    return loaded


def check_code(definition: Definition) -> None:
    """Raise InvalidDefinition for code that does not fit the way in which its table is written."""
    code, mode = definition.code, definition.mode
    if code is None:
        return
    line = definition.line
    if mode is OutputMode.COLUMNS:
        raise InvalidDefinition("mode: columns takes no Python", line=line, hint="write SQL, or a table of its own")
    if mode is not OutputMode.APPEND:
        return
    if not code.is_sql:
        raise InvalidDefinition("Python computes no streaming tables", line=line, hint="write the query in SQL")
    if wrong := next((entry for entry in code.transforms if entry.scope is not CodeScope.ROW), None):
        text = f"a table that is appended to takes transforms of single rows, and {wrong.function.name} has the scope "
        raise InvalidDefinition(f"{text}{wrong.scope}", line=line, hint="write a materialized view")


def _load_table(definition: Definition, load: Callable[[str], str | None], namespace: str | None) -> Definition:
    if definition.code is None:
        return definition
    functions = definition.code.list_functions()
    modules = _load_functions(functions, load)
    update = {"modules": list(modules), "namespace": namespace}
    return replace(definition, code=definition.code.model_copy(update=update))


def _load_validators(definition: Definition, load: Callable[[str], str | None]) -> Definition:
    if all(validator.function is None for validator in definition.validators):
        return definition
    validators = tuple(
        validator
        if validator.function is None
        else validator.model_copy(update={"modules": list(_load_functions([validator.function], load))})
        for validator in definition.validators
    )
    return replace(definition, validators=validators)


def _load_functions(functions: list[CodeFunction], load: Callable[[str], str | None]) -> dict[str, str]:
    modules = find_modules([function.path for function in functions], load)
    for function in functions:
        if not has_function(parse_python(modules[function.path]), function.name):
            raise InvalidDefinition(f"{function.path} has no function {function.name} at its top level")
    return modules
