"""Policies: what an owner has asked of the background work, with defaults, units and checks.

Read in this order: units, schedule, settings, policy, sizes.
"""
