"""Optimizers: groups, registration, liveness, and the fleet of optimizers that the server starts."""
