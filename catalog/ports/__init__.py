"""Ports: the protocols that the services need from database, storage, metastore and cloud. Docstrings state the
errors.

The adapters are in server.store, server.metastore and server.files; only server.container names them.
"""
