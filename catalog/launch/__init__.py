"""Optimizers that the server starts: what a group asks for, how many are wanted, and how each is started."""
