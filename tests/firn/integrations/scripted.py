"""A server whose answers a test writes, for the steps of schedulers: no sockets, and pauses that take no time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from firn.integrations.drivers import run_steps
from firn.integrations.steps import Steps
from firn.transport import Transport

NOW = "2026-11-28T12:00:00+00:00"
Handler = Callable[[httpx.Request], httpx.Response]


def a_run(status: str = "pending", *, job_id: str = "j1", table: str = "mart.daily", **more: Any) -> dict[str, Any]:
    final = status in ("succeeded", "failed", "canceled")
    return {
        "job_id": job_id,
        "pipeline": "orders",
        "table": table,
        "version": 1,
        "full": False,
        "status": status,
        "requested_by": None,
        "created_at": NOW,
        "leased_at": NOW if final else None,
        "ended_at": NOW if final else None,
        "error": None,
        "attempt": 1,
        "progress": {},
        "result": {},
        **more,
    }


def a_table(name: str = "mart.daily", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "definition": {},
        "state": "current",
        "checkpoint": None,
        "behind": 0,
        "behind_since": None,
        "last_run": None,
        **more,
    }


def a_pipeline(*tables: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "orders",
        "catalog": "lake",
        "version": 1,
        "owner": None,
        "created_at": NOW,
        "changed_at": NOW,
        "tables": list(tables or (a_table(),)),
    }


def refusal(status: int, code: str, message: str = "no") -> httpx.Response:
    return httpx.Response(status, json={"error": {"code": code, "message": message}})


@dataclass
class ScriptedServer:
    """Answers each `METHOD /path` with the next entry of its list, and the last entry for ever."""

    answers: dict[str, list[Any]]
    requests: list[httpx.Request] = field(default_factory=list)
    paused: list[float] = field(default_factory=list)

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        path = request.url.raw_path.decode().removeprefix("/api/v1").partition("?")[0]
        entries = self.answers[f"{request.method} {path}"]
        entry = entries.pop(0) if len(entries) > 1 else entries[0]
        if isinstance(entry, Exception):
            raise entry
        return entry if isinstance(entry, httpx.Response) else httpx.Response(200, json=entry)

    def run(self, steps: Steps[Any]) -> Any:
        transport = Transport("http://firn.test", transport=httpx.MockTransport(self.handle))
        return run_steps(steps, transport, sleep=self.paused.append)

    def sent(self, method: str) -> list[httpx.Request]:
        return [request for request in self.requests if request.method == method]
