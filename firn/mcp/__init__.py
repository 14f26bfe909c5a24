"""A server of the Model Context Protocol: what an assistant, such as one in an editor, can read and start on a server.

`firn mcp` runs it; an assistant's program starts that command and talks to it over standard input and output. The
assistant has the rights of the token that the command was started with, and nothing more: every tool is a call of the
management API. It reads by itself. It starts a job only after its user has agreed to exactly that job.
"""

from __future__ import annotations

__all__: list[str] = []
