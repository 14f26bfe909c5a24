"""Answers of the management API: one class for each, which the server constructs and the client reads.

There is a module for each noun. The server's other answers, which the client passes on as JSON, stay in `server.api`.
"""
