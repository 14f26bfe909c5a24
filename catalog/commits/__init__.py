"""Commit rules: the order of checks, and the rebase of appends onto a newer snapshot."""
