"""Serves keyed tables as ordinary Iceberg tables (docs/protocols.md#images)."""
