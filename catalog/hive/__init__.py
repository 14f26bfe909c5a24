"""Hive tables as values and rules: types, partition names, what can be upgraded, what has drifted since the last sync.

Nothing here asks a metastore or lists a directory: callers pass what they saw and act on what comes back.
Read in this order: model, types, partition_names, mapping, upgrade_check, baseline, drift, schema_sync.
"""
