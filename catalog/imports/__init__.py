"""Import of Iceberg tables from another catalog, or from plain directories: requests, entries and decisions.

Read in this order: spec, directory_names, newest_metadata, entry, import_rules.
"""
