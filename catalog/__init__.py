"""Tables, keyed tables, policies and jobs as values and rules.

Nothing here reads a clock, a socket, a file or a database: callers pass facts in and act on what comes back.
This is the domain of Firn; an Iceberg catalog is one part of it. Each package imports only those that stand before it:
errors, names, timestamps, iceberg, locations, jobs, tables, files, keyed, hive, history, commits, policy, removal, then
retention, scan, credentials, access, launch, imports, planning, and ports at the end.
"""
