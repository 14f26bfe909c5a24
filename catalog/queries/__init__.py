"""Queries of people, and the queries that they keep."""
