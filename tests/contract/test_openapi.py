"""The API document that console and clients are generated from is the one the code has."""

from __future__ import annotations

from pathlib import Path

from server.openapi import document

COMMITTED = Path(__file__).parent / "openapi.json"


def test_the_committed_document_is_current() -> None:
    current = COMMITTED.read_text(encoding="utf-8") == document()
    assert current, "the API changed: make openapi, and look at the difference"
