"""Tasks: the facts of a job that the optimizer gets from the server. Each family of job kinds has a module.

The server constructs one of these models when it gives a lease. The lease carries it as JSON. The job reads the same
model from it.
"""
