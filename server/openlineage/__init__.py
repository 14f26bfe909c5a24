"""Sinks of OpenLineage events."""
