"""Optimizers that the server starts: a group's settings, the number of optimizers, and the command that starts each."""
