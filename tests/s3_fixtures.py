"""S3 and STS for the tests: moto, in its own process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import botocore.loaders
import botocore.session
import httpx


@contextmanager
def s3_server(log: Path) -> Iterator[str]:
    """Start the server, give its address, and stop it at the end."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=environment) as process:
        try:
            while True:
                assert process.poll() is None
                try:
                    httpx.get(f"http://127.0.0.1:{port}/moto-api/", trust_env=False)
                    break
                except httpx.TransportError:
                    time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


_loader = cache(botocore.loaders.create_loader)
"""What it has read of AWS's services, in a third of a second, serves all clients of a process."""


def client_of_s3(endpoint: str, **keys: str) -> Any:
    """A client of AWS's own library, with the administrator's keys or with these."""
    session = botocore.session.Session()
    session.register_component("data_loader", _loader())
    session.set_credentials(keys.get("id", "admin"), keys.get("secret", "admin"), keys.get("token"))
    return session.create_client("s3", endpoint_url=endpoint, region_name="us-east-1")
