"""Policies: an owner's settings for background work, with defaults, units and checks.

Read in this order: units, schedule, settings, policy, sizes.
"""
