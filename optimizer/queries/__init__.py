"""Answers SQL over tables in a process of the server, by DuckDB, within bounds (docs/sql.md)."""
