"""Helpers for PySpark: which jars a session needs, how it finds the catalog, upserts and reads.

PySpark is an extra: nothing outside this package may need it to be importable.
"""
