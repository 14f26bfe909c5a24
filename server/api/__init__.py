"""The management API: each route parses a request, calls one service method and shapes the answer.

Only this package and server.iceberg know HTTP.  A route decides nothing, queries nothing and calls no adapter.
"""
