from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from firn.cli.commands import COMMANDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
GROUPS = re.split(r"^## .*$", PAGE, flags=re.MULTILINE)[1:]
ROWS = re.findall(r"^\| (?!term|---)(.+?) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CONCEPTS = re.findall(
    r"^\| (?!concept|---)(.+?) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$",
    ARCHITECTURE.partition("## Files by concept")[2].partition("\n## ")[0],
    re.MULTILINE,
)
LAYERS = ("catalog", "server", "optimizer", "firn/cli")
API = json.loads((ROOT / "tests" / "contract" / "openapi.json").read_text(encoding="utf-8"))["paths"]

GUESSES = (
    # The concept, the layer, and a newcomer's first guess of the file name.
    ("images", "catalog", "image"),
    ("images", "server", "images"),
    ("images", "optimizer", "images"),
    ("commit path", "server", "commit_path"),
    ("commit path", "catalog", "commit_rules"),
    ("bin-packing", "catalog", "bin_packing"),
    ("snapshot expiry", "catalog", "expire_snapshots"),
    ("snapshot expiry", "optimizer", "expire_snapshots"),
    ("Hive schema sync", "catalog/hive", "schema_diff"),
    ("Hive schema sync", "catalog/hive", "schema_sync"),
    ("streams", "catalog", "stream"),
    ("streams", "server", "streams"),
    ("streams", "optimizer", "stream_worker"),
    ("streams", "firn/cli", "streams"),
    ("streams", "web/src", "streams"),
    ("pipelines", "catalog", "pipeline"),
    ("pipelines", "server/service", "pipelines"),
    ("pipelines", "optimizer", "pipeline"),
    ("pipelines", "firn/cli", "pipelines"),
    ("pipelines", "web/src", "pipelines"),
    ("backfills", "catalog", "backfill"),
    ("backfills", "server/service", "backfills"),
    ("backfills", "firn/cli", "backfills"),
    ("backfills", "web/src", "backfills"),
    ("drains", "server/service", "drains"),
    ("drains", "optimizer", "drain"),
    ("quarantine of bad records", "catalog", "quarantine"),
    ("quarantine of bad records", "server/service", "quarantines"),
    ("quarantine of bad records", "firn/cli", "quarantine"),
    ("quarantine of bad records", "web/src", "quarantine"),
    ("lineage", "server/api", "lineage"),
    ("lineage", "firn/cli", "lineage"),
    ("lineage", "web/src", "lineage"),
    ("migration waves", "catalog", "wave"),
    ("migration waves", "server/api", "migration"),
    ("migration waves", "firn/cli", "migration"),
    ("migration waves", "web/src", "waves"),
    ("SQL queries", "catalog", "query"),
    ("SQL queries", "server/service", "queries"),
    ("SQL queries", "optimizer", "queries"),
    ("SQL queries", "firn/cli", "sql"),
    ("SQL queries", "web/src", "sql"),
    ("SQL queries", "optimizer", "spark_queries"),
    ("upgrade", "catalog/hive", "upgrade"),
    ("upgrade", "server", "upgrade"),
    ("upgrade", "firn/cli", "upgrade"),
    ("upgrade", "web/src", "upgrade"),
    ("token check", "catalog", "tokens"),
    ("token check", "server", "token_check"),
    ("credential vending", "catalog", "credentials"),
    ("credential vending", "server", "credential_vending"),
    ("remote signing", "catalog", "signing"),
    ("remote signing", "server", "remote_signing"),
    ("lease heartbeats", "catalog", "leases"),
    ("lease heartbeats", "server", "leases"),
    ("lease heartbeats", "optimizer", "lease_keeper"),
    ("dry runs", "catalog", "dry_run"),
    ("dry runs", "server", "dry_runs"),
    ("dry runs", "firn/cli", "dry_run"),
    ("dry runs", "web/src", "dry_run"),
    ("audit log", "catalog", "audit"),
    ("audit log", "server", "audit"),
    ("audit log", "web/src", "audit"),
    ("health score", "catalog", "health"),
    ("health score", "web/src", "health"),
    ("undrop", "catalog", "undrop"),
    ("undrop", "server", "undrop"),
    ("undrop", "web/src", "drop"),
    ("undrop", "firn/cli", "dropped"),
    ("idempotency keys", "catalog", "idempotency"),
    ("idempotency keys", "server", "idempotency"),
    ("metrics", "catalog", "metrics"),
    ("metrics", "server", "metrics"),
    ("orphan removal", "catalog", "orphan_removal"),
    ("orphan removal", "server", "orphan_removal"),
    ("orphan removal", "optimizer", "remove_orphans"),
    ("orphan removal", "firn/cli", "orphans"),
)


@pytest.mark.parametrize(("concept", "layer", "guess"), GUESSES)
def test_the_first_guess_of_a_newcomer_finds_the_file(concept: str, layer: str, guess: str) -> None:
    stems = {path.stem.replace("-", "_") for path in (ROOT / layer).rglob("*") if path.suffix in {"", ".py", ".tsx"}}
    assert any(re.search(rf"(^|_){guess}(_|$)", stem) for stem in stems), f"{concept}: no {guess} in {layer}"


def test_every_module_of_the_glossary_is_there() -> None:
    named = [path for _, _, code, _, _ in ROWS for path in re.findall(r"`([^`]+)`", code)]
    assert len(named) >= len(ROWS) > 60
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_every_route_of_the_glossary_is_in_the_api_document() -> None:
    cells = [route for *_, route, _ in ROWS if route not in {"–", "Iceberg REST"}]
    routes = [route.strip("`") for route in cells]
    assert len(routes) > 60
    assert [route for route in routes if not any(path.endswith(f"/{route}") for path in API)] == []


def test_every_command_of_the_glossary_is_a_command() -> None:
    named = [command.strip("`") for *_, command in ROWS if command != "–"]
    commands = {
        " ".join(("firn", *path))
        for name, entry in COMMANDS.items()
        for path in list_commands(entry.load(name), (name,))
    }
    assert len(named) > 60
    assert [command for command in named if command not in commands] == []


def list_commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The command and all commands below it, as the words after `firn`."""
    yield path
    for name, child in getattr(command, "commands", {}).items():
        yield from list_commands(child, (*path, name))


def test_every_file_of_the_table_of_concepts_is_there() -> None:
    named = [
        f"{layer}/{name}"
        for _, *cells in CONCEPTS
        for layer, cell in zip(LAYERS, cells, strict=True)
        for name in re.findall(r"`([^`]+)`", cell)
    ]
    assert len(CONCEPTS) == len({concept for concept, *_ in CONCEPTS}) == 25
    assert len(named) > 40
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_every_concept_that_is_guessed_is_in_the_table() -> None:
    assert {concept for concept, _, _ in GUESSES} == {concept for concept, *_ in CONCEPTS}


def test_terms_are_in_order_and_come_once() -> None:
    terms = [[term.lower() for term, *_ in ROWS if f"| {term} |" in group] for group in GROUPS]
    assert all(term < following for group in terms for term, following in pairwise(group))
    assert len({term for group in terms for term in group}) == len(ROWS)


def test_a_meaning_is_one_sentence_of_25_words_at_most() -> None:
    assert [text for _, text, *_ in ROWS if len(text.split()) > 25 or not text.endswith((".", "`."))] == []
