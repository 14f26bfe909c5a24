"""`firn cdc`: brings many tables of a database into the lake by one configuration (docs/cdc.md)."""
