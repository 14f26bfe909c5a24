"""Taking over Iceberg tables that another catalog, or none, has kept: what is asked, found and decided.

Read in this order: spec, names, newest, entry, judge.
"""
