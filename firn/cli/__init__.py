"""The command line: `firn …`.

Each module adds one group of commands to firn.cli.app.  Commands ask the server through firn.client, print tables for
people or JSON for programs, and end with 0, 1 (it failed) or 2 (wrong usage).  Server and optimizer are started as
processes of their own; nothing of them is imported.
"""

from firn.cli.app import main

__all__ = ["main"]
