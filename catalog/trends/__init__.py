"""Trends: measures of tables, namespaces and catalogs over time, from samples of bounded number."""
