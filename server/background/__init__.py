"""Background work of the server: sync, plan, end silent leases, settle unknown outcomes.

A task takes no input, compares what is with what should be, acts, and returns what it did; it may run at any time,
any number of times.  Tasks call services; they may not keep state between runs or name an adapter.
"""
