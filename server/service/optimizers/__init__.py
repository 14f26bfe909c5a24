"""Optimizers: groups, registration, liveness, and the fleet that the server starts."""
