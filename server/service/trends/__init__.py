"""Trends: the task that takes samples, and what readers see of them."""
