"""The last uniqueness check of a keyed table, as the management API shows it."""

from __future__ import annotations

from dataclasses import asdict

from catalog.keyed.uniqueness import Uniqueness
from firn.protocol.answers.keys import KeysOut


def build_keys_out(uniqueness: Uniqueness) -> KeysOut:
    """Build the answer from a check. Snapshot ids are text because they exceed the integers of JavaScript."""
    snapshot_id = None if uniqueness.snapshot_id is None else str(uniqueness.snapshot_id)
    return KeysOut.model_validate(asdict(uniqueness) | {"snapshot_id": snapshot_id})
