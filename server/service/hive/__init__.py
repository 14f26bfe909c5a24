"""Beside Hive: the index of its tables, upgrades in place, and sync.

Nothing here modifies, moves or deletes a Hive data file (invariant 7), nor writes under a Hive table's location.
"""
