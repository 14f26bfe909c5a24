"""The database: sessions, rows, and the one place where a row becomes a domain value.

Only session.py commits.  Nothing here decides about tables or jobs; it answers queries and refuses lost races.
"""
