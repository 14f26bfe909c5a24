"""Hive tables, beside a real metastore: taking them over, following them, giving them back. `python -m bench.hive`."""
