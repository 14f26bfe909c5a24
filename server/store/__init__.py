"""The database: sessions, rows, and the conversions between rows and domain values.

Only session.py commits.  The package makes no decisions; it answers queries and detects lost races.
"""
