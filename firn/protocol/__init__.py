"""What server, optimizer and client exchange: names, locations, tasks of jobs, leases, and the answers of the API.

Each of the three imports these modules and so has the same classes. They import nothing else of this repository, and
no more than pydantic from outside. This module imports none of them: `import firn` stays fast.
"""
