"""Pipelines: which versions may follow each other, from which checkpoints a run may go on, and what starts runs."""
