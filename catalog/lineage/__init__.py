"""Lineage of tables: which tables, views, pipelines and jobs a table comes from, and which read it."""
