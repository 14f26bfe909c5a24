"""The table of promises in docs/security.md names tests: each of them is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
_ROW = re.compile(r"^\| (?P<promise>[^|]+) \| (?P<tests>.*`tests/.*) \|$", re.MULTILINE)
_QUOTED = re.compile(r"`([^`]+)`")


def promises() -> Iterator[tuple[str, list[str]]]:
    """Each promise of the table, and what it names between backticks as its tests."""
    for row in _ROW.finditer(PAGE.read_text(encoding="utf-8")):
        yield row["promise"], _QUOTED.findall(row["tests"])


def has_test(files: list[Path], name: str) -> bool:
    """Whether one of the files has a test of this name; `…` stands for any part of it."""
    pattern = re.compile(r"^ *def " + r"\w*".join(map(re.escape, name.split("…"))) + r"\b", re.MULTILINE)
    return any(pattern.search(file.read_text(encoding="utf-8")) for file in files)


@pytest.mark.parametrize(("promise", "named"), [*promises()])
def test_each_promise_names_tests_that_are_there(promise: str, named: list[str]) -> None:
    files: list[Path] = []
    for text in named:
        path, _, test = text.partition("::")
        if path.startswith("tests/"):
            files = sorted((ROOT / path).rglob("test_*.py")) if (ROOT / path).is_dir() else [ROOT / path]
            assert [file for file in files if file.is_file()], f"{promise}: there is no {path}"
        else:
            test = text.removeprefix("…::").removeprefix("::") if "test_" in text or "…" in text else ""
        assert not test or has_test(files, test), f"{promise}: no test {test} in {files}"


def test_there_are_promises() -> None:
    assert len([*promises()]) >= 20
