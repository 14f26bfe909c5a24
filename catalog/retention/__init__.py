"""How long things are kept: snapshots, rows, tags and statistics; what their jobs are told with the lease."""
