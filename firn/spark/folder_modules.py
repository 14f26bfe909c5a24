"""Python files of a pipeline as modules of one run: they import each other, and nothing else in the process sees them.

The files are texts, not on disk. Modules that are not in `sys.modules` are pickled by value, so functions for Spark's
workers carry what they need with them.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import CodeType, ModuleType
from typing import Any

from firn.errors import Invalid
from firn.pipelines.python_modules import name_module


@dataclass
class FolderModules:
    """The files by their paths. Each is run once, when somebody first needs it."""

    texts: Mapping[str, str]
    loaded: dict[str, ModuleType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._paths = {name_module(path): path for path in self.texts}
        self._packages = {
            ".".join(name.split(".")[:count]) for name in self._paths for count in range(1, name.count(".") + 1)
        }

    def load(self, path: str) -> ModuleType:
        """The module of a file. Raises Invalid if there is no such file, and what the file itself raises."""
        if path not in self.texts:
            raise Invalid(f"the definition has no file {path}", hint="put the pipeline again: `firn pipeline put`")
        return self._load(name_module(path))

    def _load(self, name: str) -> ModuleType:
        if name in self.loaded:
            return self.loaded[name]
        module = self.loaded[name] = ModuleType(name)
        path = self._paths.get(name)
        is_package = path is None or path.endswith("__init__.py")
        module.__package__ = name if is_package else name.rpartition(".")[0]
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": self._import}
        if path is not None:
            module.__file__ = path
            try:
                exec(_compile(self.texts[path], path), vars(module))  # noqa: S102 -- what --allow-code is about
            except BaseException:
                del self.loaded[name]
                raise
        return module

    def _import(
        self,
        name: str,
        importer: Mapping[str, Any] | None = None,
        local: Mapping[str, Any] | None = None,
        fromlist: tuple[str, ...] = (),
        level: int = 0,
    ) -> ModuleType:
        """`import` of a file of the folder, or Python's own import for anything else."""
        full = self._resolve(name, importer, level)
        if not self._has(full.partition(".")[0]):
            return builtins.__import__(name, importer, local, fromlist, level)
        module = self._load_chain(full)
        for part in fromlist or ():
            if self._has(f"{full}.{part}"):
                setattr(module, part, self._load_chain(f"{full}.{part}"))
        return module if fromlist or level else self._load(full.partition(".")[0])

    def _resolve(self, name: str, importer: Mapping[str, Any] | None, level: int) -> str:
        if not level:
            return name
        package = str((importer or {}).get("__package__") or "").split(".")
        base = package[: len(package) - level + 1]
        return ".".join(filter(None, [*base, name]))

    def _has(self, name: str) -> bool:
        return name in self._paths or name in self._packages

    def _load_chain(self, name: str) -> ModuleType:
        """The module, whose parents have it as an attribute. Raises ModuleNotFoundError as Python's import does."""
        if not self._has(name):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        parent, _, last = name.rpartition(".")
        above = self._load_chain(parent) if parent else None
        module = self._load(name)
        if above is not None:
            setattr(above, last, module)
        return module


def _compile(text: str, path: str) -> CodeType:
    return compile(text, path, "exec", dont_inherit=True)
