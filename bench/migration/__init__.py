"""The migration of a whole warehouse: a real metastore with thousands of tables. `python -m bench.migration`."""
