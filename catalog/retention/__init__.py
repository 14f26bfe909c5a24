"""Retention of snapshots, rows, tags and statistics, and the tasks of these jobs."""
