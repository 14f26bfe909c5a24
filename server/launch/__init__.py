"""Processes that the server starts."""
