"""Alembic revisions of the server's database, and the environment that runs them.

They may read server.store's tables to compare against; nothing imports them but Alembic.
"""
