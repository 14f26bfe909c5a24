"""The registry of maintenance jobs: it finds the module of every kind that `JobKind` names."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from catalog.jobs.job import JobKind
from catalog.jobs.scheduling import longest_wait
from catalog.maintenance.kind import MaintenanceKind


def load_kind(name: JobKind) -> MaintenanceKind:
    """Load the kind from its module, where a constant has the name of the enumeration's member.

    Raises TypeError for a constant that is no such kind.
    """
    kind = getattr(import_module(f"catalog.maintenance.{name.module}"), name.name)
    if not isinstance(kind, MaintenanceKind) or kind.name is not name:
        raise TypeError(f"catalog.maintenance.{name.module}.{name.name} is not the kind {name}")
    return kind


KINDS: tuple[MaintenanceKind, ...] = tuple(map(load_kind, JobKind))
"""The most urgent first, in the order of `JobKind`."""

_BY_NAME: Mapping[JobKind, MaintenanceKind] = {kind.name: kind for kind in KINDS}

LONGEST_WAIT = longest_wait(kind.max_wait for kind in KINDS)
"""The longest wait of all kinds: no deadline lies further ahead."""


def kind_of(name: JobKind) -> MaintenanceKind:
    """The kind of this name."""
    return _BY_NAME[name]
