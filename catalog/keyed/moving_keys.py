"""Keys whose rows can go from one partition of base to another (docs/protocols.md, rule 6.8)."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.keyed.spec import KeyScope, KeySpec


def may_keys_move(base: Json, spec: KeySpec) -> bool:
    """Whether a key's row can go to another partition of base. Its changes may then lie in two files of a commit."""
    if spec.scope is KeyScope.PARTITION:
        return False
    keys = {field["id"] for field in current_schema(base)["fields"] if field["name"] in spec.primary_key}
    return any(field["source-id"] not in keys for field in list_partition_fields(base))


def list_partition_fields(base: Json) -> Sequence[Json]:
    """The fields of base's partition spec by which it is partitioned today."""
    spec = next(spec for spec in base["partition-specs"] if spec["spec-id"] == base["default-spec-id"])
    return [field for field in spec["fields"] if field["transform"] != "void"]
