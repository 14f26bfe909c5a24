"""Tables, keyed tables, policies and jobs as values and rules.

Nothing here reads a clock, a socket, a file or a database: callers pass facts in and act on what comes back.
Read in this order: errors, names, iceberg, keyed, guard, job, policy, planning, hive, ports.
"""
