"""Drivers of steps: one that blocks its thread, and one for an event loop that must not wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import httpx

from firn.errors import FirnError, Unauthenticated
from firn.integrations.steps import Call, Json, Pause, Steps
from firn.transport import (
    ANSWER_SECONDS,
    API,
    CONNECT_SECONDS,
    Transport,
    build_headers,
    build_lost,
    build_unreachable,
    check_url,
    is_loopback,
    read_error,
    read_json,
)

T = TypeVar("T")


def run_steps(steps: Steps[T], transport: Transport, *, sleep: Callable[[float], None] = time.sleep) -> T:
    """Do the steps one after the other, and return their result."""
    answer: Json = None
    error: FirnError | None = None
    while True:
        try:
            step = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        answer, error = None, None
        if isinstance(step, Pause):
            sleep(step.seconds)
            continue
        try:
            answer = transport.change(step.method, step.path, step.body, step.params)
        except FirnError as refused:
            error = refused


async def run_steps_async(steps: Steps[T], server: AsyncServer) -> T:
    """Do the steps without blocking the event loop, and return their result."""
    answer: Json = None
    error: FirnError | None = None
    while True:
        try:
            step = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        answer, error = None, None
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            continue
        try:
            answer = await server.call(step)
        except FirnError as refused:
            error = refused


class AsyncServer:
    """The management API of one server, for an event loop.

    `load_address` gives address and token. It is called first, and again after the server has refused the token: tokens
    end, and whoever stores them puts a new one there.
    """

    def __init__(self, load_address: Callable[[], Awaitable[tuple[str, str | None]]]) -> None:
        self._load_address = load_address
        self._token: str | None = None
        self._http: httpx.AsyncClient | None = None

    async def call(self, call: Call) -> Json:
        """Send one call, and once more with the newest token if the server refuses the one before."""
        if self._http is None:
            await self._connect()
        try:
            return await self._send(call)
        except Unauthenticated:
            token = self._token
            await self._connect()
            if token == self._token:
                raise
            return await self._send(call)

    async def close(self) -> None:
        """Let connections go."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def _connect(self) -> None:
        url, token = await self._load_address()
        await self.close()
        self._token = token
        self._http = httpx.AsyncClient(
            base_url=check_url(url),
            headers=build_headers(token),
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            trust_env=not is_loopback(url),
        )

    async def _send(self, call: Call) -> Json:
        assert self._http is not None  # noqa: S101 -- `call` has connected
        url = str(self._http.base_url)
        query = {name: value for name, value in (call.params or {}).items() if value is not None}
        try:
            answer = await self._http.request(call.method, f"{API}{call.path}", json=call.body, params=query)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise build_unreachable(url, error) from error
        except httpx.RequestError as error:
            raise build_lost(url, call.method, f"did not answer ({type(error).__name__})") from error
        if not answer.is_success:
            raise read_error(url, answer)
        return read_json(answer) if answer.content else None
