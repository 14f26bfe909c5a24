"""Pipelines: definitions, runs, and the pins that runs compute from."""
