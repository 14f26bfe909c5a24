"""Imports of tables: `sources` list tables, `register` registers a table, `imports` runs whole imports."""
