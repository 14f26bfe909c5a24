"""Pipelines: what starts the runs of their tables."""
