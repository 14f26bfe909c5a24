"""Every kind of maintenance job. A new kind is a module beside this one and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from catalog.jobs.job import JobKind
from catalog.jobs.scheduling import longest_wait
from catalog.maintenance.check_keys import KEYS
from catalog.maintenance.clean import CLEAN
from catalog.maintenance.compact import COMPACT
from catalog.maintenance.convert import CONVERT
from catalog.maintenance.expire_snapshots import EXPIRE
from catalog.maintenance.kind import MaintenanceKind
from catalog.maintenance.merge import MERGE
from catalog.maintenance.publish import PUBLISH
from catalog.maintenance.remove_orphans import REMOVE_ORPHANS
from catalog.maintenance.rewrite import REWRITE
from catalog.maintenance.rewrite_deletes import REWRITE_DELETES
from catalog.maintenance.rewrite_manifests import REWRITE_MANIFESTS
from catalog.maintenance.statistics import STATISTICS
from catalog.maintenance.sync import SYNC
from catalog.maintenance.tags import TAGS
from catalog.maintenance.ttl import TTL

KINDS: tuple[MaintenanceKind, ...] = (
    MERGE,
    CLEAN,
    REWRITE,
    COMPACT,
    REWRITE_DELETES,
    REWRITE_MANIFESTS,
    EXPIRE,
    TTL,
    REMOVE_ORPHANS,
    STATISTICS,
    TAGS,
    KEYS,
    SYNC,
    PUBLISH,
    CONVERT,
)
"""The most urgent first: of the kinds that are due, the planner takes the first one."""

_BY_NAME: Mapping[JobKind, MaintenanceKind] = {kind.name: kind for kind in KINDS}

LONGEST_WAIT = longest_wait(kind.max_wait for kind in KINDS)
"""No deadline lies further ahead than this."""


def kind_of(name: JobKind) -> MaintenanceKind:
    """The kind of this name; tests/contract checks that there is one for every name."""
    return _BY_NAME[name]
