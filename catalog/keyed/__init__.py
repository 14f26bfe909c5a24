"""Keyed tables: one logical table with a primary key over a base and a change store.

The rules are those of protocol section 1. Read in this order: spec, schema, view_sql, guard.
"""
