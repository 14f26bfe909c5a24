"""Reads `manifest.json` (schema v12) of `dbt compile`. Nothing in it is trusted: each field may have any type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from firn.errors import Invalid

_LARGEST: Final = 256 * 1024 * 1024
_VERSION: Final = "/manifest/v12.json"
MOST_MODELS: Final = 1_000


@dataclass(frozen=True)
class Node:
    """A node of the manifest, by its unique id."""

    id: str
    fields: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of its table."""
        return self.text("alias") or self.text("identifier") or self.text("name") or self.id

    @property
    def kind(self) -> str:
        """Model, test, snapshot, seed, source …"""
        return self.text("resource_type")

    @property
    def config(self) -> Mapping[str, Any]:
        """Its settings."""
        return self.section("config")

    def text(self, name: str) -> str:
        """A text; empty for anything else."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else ""

    def section(self, name: str) -> Mapping[str, Any]:
        """A mapping; empty for anything else."""
        value = self.fields.get(name)
        return value if isinstance(value, dict) else {}

    def relation(self) -> tuple[str, ...]:
        """Schema and name in lower case."""
        return (self.text("schema").lower(), self.name.lower())


@dataclass(frozen=True)
class Manifest:
    """The manifest: models, tests and other nodes, and sources."""

    project: str
    adapter: str
    nodes: tuple[Node, ...]
    sources: tuple[Node, ...]

    def list_nodes(self, *kinds: str) -> Iterator[Node]:
        """The nodes of some kinds."""
        return (node for node in self.nodes if node.kind in kinds)


def read_manifest(folder: Path) -> Manifest:
    """Read DIR/target/manifest.json, or DIR/manifest.json. Raises Invalid for what is no manifest of this version."""
    paths = [path for path in (folder / "target" / "manifest.json", folder / "manifest.json") if path.is_file()]
    if not paths:
        raise Invalid(f"{folder} has no target/manifest.json", hint="run: dbt compile --full-refresh")
    path = paths[0]
    if path.stat().st_size > _LARGEST:
        raise Invalid(f"{path} is larger than {_LARGEST // 2**20} MiB")
    try:
        document = orjson.loads(path.read_bytes())
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise Invalid(f"{path} is no JSON: {str(error)[:200]}") from error
    root = Node("", document if isinstance(document, dict) else {})
    metadata = Node("", root.section("metadata"))
    if not metadata.text("dbt_schema_version").endswith(_VERSION):
        raise Invalid(f"{path} is no manifest of the schema v12", hint="compile with dbt 1.8 or newer")
    nodes = tuple(_read_nodes(root.section("nodes")))
    if sum(node.kind == "model" for node in nodes) > MOST_MODELS:
        raise Invalid(
            f"{path} has more than {MOST_MODELS:,} models", hint="import a part of them: dbt compile --select …"
        )
    project = metadata.text("project_name") or "imported"
    return Manifest(project, metadata.text("adapter_type"), nodes, tuple(_read_nodes(root.section("sources"))))


def _read_nodes(section: Mapping[str, Any]) -> Iterator[Node]:
    return (Node(key, value) for key, value in sorted(section.items()) if isinstance(value, dict))
