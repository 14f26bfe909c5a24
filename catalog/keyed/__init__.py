"""Keyed tables: one logical table with a primary key over a base and a change store.

The rules are those of docs/protocols.md#keyed-tables. Read in this order: spec, schema, view_sql, store_commit.
"""
