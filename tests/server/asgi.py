"""Requests to an application in this process: what a server would answer, or the exception that would kill it."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.types import ASGIApp

from server.app import create_app
from server.background.registry import build_background
from server.service.services import Services
from server.settings import Settings


@cache
def _loop() -> BlockingPortal:
    """The loop of this process, as a server has one.

    It runs in a thread of its own: Playwright, once started, keeps a loop running in the main thread of its process.
    """
    portals = ExitStack()
    atexit.register(portals.close)
    return portals.enter_context(start_blocking_portal())


@dataclass(frozen=True)
class Client:
    """Sends requests one by one; safe to use from several threads."""

    app: ASGIApp

    def request(self, method: str, path: str, **how: Any) -> httpx.Response:
        async def send() -> httpx.Response | BaseException:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", trust_env=False) as client:
                try:
                    return await client.request(method, path, **how)
                except BaseException as error:  # noqa: BLE001 -- one that kills a server would end the loop, too
                    return error

        answer = _loop().call(send)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def get(self, path: str, **how: Any) -> httpx.Response:
        return self.request("GET", path, **how)

    def post(self, path: str, **how: Any) -> httpx.Response:
        return self.request("POST", path, **how)

    def delete(self, path: str, **how: Any) -> httpx.Response:
        return self.request("DELETE", path, **how)


def client_of(services: Services, settings: Settings) -> Client:
    """A client of a server with these services, which has been asked once in each area.

    FastAPI builds its routes when it is first asked, and not from several threads; a server's loop has one.
    """
    client = Client(create_app(settings, services, build_background(settings, services)))
    for area in ("iceberg", "api"):
        client.get(f"/{area}/v1/nowhere")
    return client
