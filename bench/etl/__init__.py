"""A derived table, kept up to date in four ways (docs/pipelines.md)."""
