"""The management API: parses a request, calls one service verb, shapes the answer.

The only place, with server.iceberg, that knows HTTP.  It may not decide, query or touch an adapter.
"""
