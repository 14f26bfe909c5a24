"""Collects, takes in and shows the lineage of tables."""
