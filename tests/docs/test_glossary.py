from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
GROUPS = re.split(r"^## .*$", PAGE, flags=re.MULTILINE)[1:]
ROWS = re.findall(r"^\| (?!term|---)(.+?) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)

GUESSES = (
    # What a newcomer looks for, the layer, and the file name that was guessed before looking.
    ("commit path", "catalog", "commit_rules"),
    ("bin-packing", "catalog", "bin_packing"),
    ("snapshot expiry", "catalog", "expire_snapshots"),
    ("snapshot expiry", "optimizer", "expire_snapshots"),
    ("Hive schema sync", "catalog/hive", "schema_diff"),
    ("Hive schema sync", "catalog/hive", "schema_sync"),
    ("upgrade", "catalog/hive", "upgrade"),
    ("upgrade", "server", "upgrade"),
    ("upgrade", "firn/cli", "upgrade"),
    ("upgrade", "web/src", "upgrade"),
    ("token check", "catalog", "tokens"),
    ("token check", "server", "tokens"),
    ("credential vending", "catalog", "credentials"),
    ("remote signing", "catalog", "signing"),
    ("lease heartbeats", "server", "leases"),
    ("lease heartbeats", "optimizer", "lease_keeper"),
    ("dry runs", "catalog", "dry_run"),
    ("dry runs", "web/src", "dry_run"),
    ("audit log", "catalog", "audit"),
    ("audit log", "server", "audit"),
    ("audit log", "web/src", "audit"),
    ("health score", "catalog", "health"),
    ("health score", "web/src", "health"),
    ("undrop", "catalog", "drop"),
    ("undrop", "server", "undrop"),
    ("undrop", "web/src", "drop"),
    ("idempotency keys", "catalog", "idempotency"),
    ("metrics", "catalog", "metrics"),
    ("metrics", "server", "metrics"),
    ("orphan removal", "catalog", "orphan_files"),
    ("orphan removal", "optimizer", "remove_orphans"),
    ("orphan removal", "firn/cli", "orphans"),
)


@pytest.mark.parametrize(("concept", "layer", "guess"), GUESSES)
def test_the_first_guess_of_a_newcomer_finds_the_file(concept: str, layer: str, guess: str) -> None:
    stems = {path.stem.replace("-", "_") for path in (ROOT / layer).rglob("*") if path.suffix in {"", ".py", ".tsx"}}
    assert any(re.search(rf"(^|_){guess}(_|$)", stem) for stem in stems), f"{concept}: no {guess} in {layer}"


def test_every_module_of_the_glossary_is_there() -> None:
    named = [path for _, _, code in ROWS for path in re.findall(r"`([^`]+)`", code)]
    assert len(named) >= len(ROWS) > 60
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_terms_are_in_order_and_come_once() -> None:
    terms = [[term.lower() for term, _, _ in ROWS if f"| {term} |" in group] for group in GROUPS]
    assert all(one < other for group in terms for one, other in pairwise(group))
    assert len({term for group in terms for term in group}) == len(ROWS)


def test_a_meaning_is_one_sentence_of_25_words_at_most() -> None:
    assert [text for _, text, _ in ROWS if len(text.split()) > 25 or not text.endswith((".", "`."))] == []
