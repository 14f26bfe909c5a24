"""What the server tells an optimizer about a job: a module for each family of job kinds.

The server constructs one of these models when it gives a lease. The lease carries it as JSON. The job reads the same
model from it.
"""
