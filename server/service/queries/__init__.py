"""SQL over tables for people: checks of statements, their tables, queries, previews and saved queries (docs/sql.md)."""
