"""One verb per function: load, let the domain decide, save.

Services know ports, not adapters, and know nothing of HTTP.  They may not open a transaction of their own: the caller
brings the unit of work, and its end is the only commit.
"""
