"""The protocol package is what both sides share: it depends on neither, and importing it costs next to nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import firn.protocol

MODULES = sorted(Path(firn.protocol.__file__).parent.rglob("*.py"))
ALLOWED = {"firn.protocol", "pydantic"}
ALLOWED_IN = {"avro": {"fastavro"}}
"""What single packages of the protocol may import besides, for those who decode such records."""


def imported(path: Path) -> set[str]:
    """The modules that a file imports anywhere, from outside of the standard library."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_of_the_protocol_imports_nothing_of_ours_but_the_protocol(path: Path) -> None:
    allowed = (*ALLOWED, *ALLOWED_IN.get(path.parent.name, ()))
    assert {name for name in imported(path) if not name.startswith(allowed)} == set()


def test_importing_firn_or_a_name_rule_imports_no_model() -> None:
    code = "import sys, firn, firn.protocol.names, firn.protocol.locations; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"
