"""Maintenance jobs: one module per kind of job, and the planner that chooses between the kinds.

Each module says when its job is due, what it gains and costs, how long it may wait, what its task is and what its dry
run reports. Read in this order: kind, context, estimate, dry_run, merge (an example), registry, prediction, next_job.
"""

from catalog.maintenance.kind import JobOptions, MaintenanceKind
from catalog.maintenance.next_job import decide_next_job
from catalog.maintenance.prediction import predict_job
from catalog.maintenance.registry import KINDS, kind_of

__all__ = ["KINDS", "JobOptions", "MaintenanceKind", "decide_next_job", "kind_of", "predict_job"]
