"""Statements of people, answered in Spark (docs/sql.md)."""
