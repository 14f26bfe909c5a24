"""One real server for all tests of a process that run commands in processes of their own."""

from __future__ import annotations

from tests.command_fixtures import free_port, run, server

__all__ = ["free_port", "run", "server"]
