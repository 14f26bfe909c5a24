"""What goes wrong while a step runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from server.files.table_files import TableFiles


def refusing(name: str, real: Callable[..., object]) -> Callable[..., object]:
    """An operating system that lets nobody at directories or files of this name."""

    def refused(path: str, *rest: object, **named: object) -> object:
        if str(path).rstrip("/").endswith(name):
            raise PermissionError(13, os.strerror(13), str(path))
        return real(path, *rest, **named)

    return refused


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Hive's side acts once, between a listing and the reading of footers."""
    left = [act]

    def after(read: Callable[..., Iterator[object]]) -> Callable[..., Iterator[object]]:
        def acted(*args: Any, **named: Any) -> Iterator[object]:
            while left:
                left.pop()()
            return read(*args, **named)

        return acted

    for name in ("footers", "examined"):
        monkeypatch.setattr(TableFiles, name, after(getattr(TableFiles, name)))
