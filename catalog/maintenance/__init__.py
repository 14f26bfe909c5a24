"""Maintenance jobs: one module per kind of job, and the planner that chooses between the kinds.

Each module says when its job is due, what it gains and costs, how long it may wait, what its task is and what its dry
run reports. Read in this order: kind, context, estimate, dry_run, merge (an example), registry, prediction, decide.
"""

from catalog.maintenance.decide import decided
from catalog.maintenance.kind import JobOptions, MaintenanceKind
from catalog.maintenance.prediction import predicted
from catalog.maintenance.registry import KINDS, kind_of

__all__ = ["KINDS", "JobOptions", "MaintenanceKind", "decided", "kind_of", "predicted"]
