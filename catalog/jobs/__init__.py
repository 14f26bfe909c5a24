"""Background jobs: statuses and leases, the queue, scheduling, predictions, optimizers
and their groups, operations.
"""
