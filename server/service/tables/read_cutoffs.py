"""The rows that are too old for reads of a keyed table (docs/protocols.md, rule 5.14)."""

from __future__ import annotations

from catalog.iceberg.json import Json
from catalog.policy.policy import Policy
from catalog.ports.store import UnitOfWork
from catalog.retention.at_read import AT_READ, compute_read_cutoff
from catalog.retention.ttl import Cutoff
from catalog.tables.relation import Relation
from server.service.planning.policies import load_policy


def find_read_cutoff(uow: UnitOfWork, relation: Relation, base: Json, *, policy: Policy | None = None) -> Cutoff | None:
    """The cutoff of reads now; None if they hide nothing. Hive would go on showing the rows of a linked table."""
    if relation.hive_name is not None:
        return None
    own = load_policy(uow, relation, base.get("properties") or {}) if policy is None else policy
    return compute_read_cutoff(base, own, uow.now()) if own[AT_READ] else None
