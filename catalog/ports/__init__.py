"""What the services need of the world outside, as protocols; each docstring is about failure.

Adapters stand in server.store, server.metastore and server.files; only server.container names them.
"""
