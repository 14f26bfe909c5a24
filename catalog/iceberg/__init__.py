"""Iceberg table and view metadata as plain JSON values: built, changed and checked by the rules of the specification.

Nothing here reads or writes files, and nothing here makes ids or reads a clock: callers pass them in.  Metadata stays
the dicts that the JSON parser made, so fields this package has never heard of survive every change.
Read in this order: json, reading, schema, transform, partitioning, sorting, draft, structure, snapshots, formats,
requirements, table, projection, view.
"""
