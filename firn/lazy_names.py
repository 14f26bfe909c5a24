"""Names of a package that load their module on first use, because the module needs an extra or much time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module


def load_name(package: str, modules: Mapping[str, Sequence[str]], name: str) -> object:
    """Load a name from the module that `modules` lists it under. Raises AttributeError for any other name."""
    for module, names in modules.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
