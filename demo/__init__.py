"""`make demo`: a real Hive table becomes a keyed, self-merging Iceberg table, and none of its files changes."""
