"""Leases as a server gives them."""

from __future__ import annotations

from typing import Any

from firn.protocol.leases import Lease


def a_lease(**args: Any) -> Lease:
    """A lease of a merge, but for what is told otherwise."""
    facts: dict[str, Any] = {
        "lease": "j.1.t",
        "lease_seconds": 60,
        "heartbeat_seconds": 5,
        "job_id": "j",
        "attempt": 1,
        "kind": "merge",
        "catalog": "lake",
        "table": "db.orders",
        "namespace": ["db"],
        "name": "orders",
        "params": {},
        "task": {},
        "tables": [],
        "own_locations": [],
        "hive_table": None,
        "delegation": [],
    }
    return Lease.model_validate(facts | args)
