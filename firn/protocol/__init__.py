"""The messages between server, optimizer and client: names, locations, tasks of jobs, leases, and API answers.

Server, optimizer and client import these modules, so they share the classes. The modules import nothing else of this
repository, and only pydantic from outside. This file imports none of them, so `import firn` stays fast.
"""
