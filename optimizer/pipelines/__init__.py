"""Runs of pipelines in Spark: inputs at their pins, affected rows, and one commit to the target (docs/pipelines.md)."""
