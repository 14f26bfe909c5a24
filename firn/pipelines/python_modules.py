"""The Python files that a function consists of: its own, and those of the folder that they import.

Their texts decide the fingerprint of a table, without comments and layout. An import that only a run would show, such
as `importlib.import_module(name)`, is not among them, and fails in the run.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import PurePosixPath

from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.python_files import parse_python


def name_module(path: str) -> str:
    """The dotted name of a file below the folder."""
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def find_modules(paths: Iterable[str], load: Callable[[str], str | None]) -> dict[str, str]:
    """The texts of these files, and of those that they import, directly or through others.

    `load` gives the text of a file of the folder by its path, None if there is none. Raises InvalidDefinition for a
    file that is missing or no Python.
    """
    reached: dict[str, str] = {}
    waiting = [*paths]
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        text = load(path)
        if text is None:
            raise InvalidDefinition(f"the folder has no file {path}")
        reached[path] = text
        for name in _find_imports(path, text):
            for part in _list_parents(name):
                stem = part.replace(".", "/")
                waiting += [file for file in (f"{stem}.py", f"{stem}/__init__.py") if load(file) is not None]
    return dict(sorted(reached.items()))


def fingerprint_modules(texts: Mapping[str, str]) -> str:
    """A digest of files, by path, that comments and layout do not change."""
    digest = hashlib.sha256()
    for path, written in sorted(texts.items()):
        text = written
        with suppress(InvalidDefinition, RecursionError):
            text = ast.unparse(parse_python(written))
        digest.update(f"{path}\n{len(text)}\n{text}\n".encode())
    return digest.hexdigest()


def _find_imports(path: str, text: str) -> Iterator[str]:
    package = name_module(path).split(".")[:-1]
    try:
        tree = parse_python(text)
    except InvalidDefinition as problem:
        raise problem.in_file(path) from problem
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            yield stem
            yield from (f"{stem}.{alias.name}".strip(".") for alias in node.names)


def _list_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))
