"""HTTP to one server: time-outs, retries where they are harmless, and every failure as one of firn.errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from ipaddress import ip_address
from typing import Any, TypeAlias, TypeVar

import httpx

from firn.errors import (
    FirnError,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Refused,
    ServerFault,
    Unauthenticated,
    Unavailable,
    Unreachable,
)

Json: TypeAlias = Any
Params: TypeAlias = Mapping[str, str | int | bool | Sequence[str] | None]
_T = TypeVar("_T")

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 60.0
TRIES = 4
FIRST_PAUSE_SECONDS = 0.2
API = "/api/v1"

_BY_STATUS: Mapping[int, type[FirnError]] = {
    400: Invalid,
    401: Unauthenticated,
    403: Refused,
    404: NotFound,
    405: NotFound,
    409: Refused,
    422: Invalid,
    503: Unavailable,
}
_OF_GATEWAYS = frozenset({502, 503, 504})
"""What a proxy answers while the server behind it starts again, or takes too long."""


def repeat_while_unavailable(call: Callable[[], _T]) -> _T:
    """Call it again, a few times, when no answer comes or the server cannot answer just now."""
    pause = FIRST_PAUSE_SECONDS
    for _ in range(TRIES - 1):
        try:
            return call()
        except (Unreachable, Unavailable):
            time.sleep(pause)
            pause *= 2
    return call()


def is_loopback(url: str) -> bool:
    """Whether the address is this machine's own."""
    host = httpx.URL(url).host
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def check_url(url: str) -> str:
    """The address itself. Invalid if it is no address of a server."""
    how = "it looks like http://HOST:PORT"
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise Invalid(f"{url!r} is no address of a server: {error}", hint=how) from error
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise Invalid(f"{url!r} is no address of a server", hint=how)
    return url


class Transport:
    """The management API of one server, call by call.  Safe to share between threads."""

    def __init__(self, url: str, *, token: str | None = None, transport: httpx.BaseTransport | None = None) -> None:
        headers = build_headers(token)
        timeout = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
        self.url = check_url(url)
        # A proxy that the environment names is for the world outside: it knows another 127.0.0.1 than we do.
        self._http = httpx.Client(
            base_url=url, headers=headers, timeout=timeout, transport=transport, trust_env=not is_loopback(url)
        )

    def get(self, path: str, params: Params | None = None) -> Json:
        """Ask; asked again when no answer comes or the server is not able to answer just now."""
        return repeat_while_unavailable(lambda: self._call("GET", path, params=params))

    def get_bytes(self, path: str) -> bytes:
        """Download a file."""
        return repeat_while_unavailable(lambda: self._send("GET", path).content)

    def get_text(self, path: str, params: Params | None = None) -> str:
        """Ask for an answer that is not JSON, such as CSV; asked again as by `get`."""
        return repeat_while_unavailable(lambda: self._send("GET", path, params=params).text)

    def items(self, path: str, params: Params | None = None, *, limit: int | None = None) -> Iterator[Json]:
        """The entries of a list, page by page."""
        query: dict[str, Any] = dict(params or {})
        while True:
            page = self.get(path, query)
            items = page if isinstance(page, list) else page["items"]
            yield from items if limit is None else items[:limit]
            limit = None if limit is None else limit - len(items)
            cursor = None if isinstance(page, list) else page["next_cursor"]
            if cursor is None or (limit is not None and limit <= 0):
                return
            query["cursor"] = cursor

    def change(
        self, method: str, path: str, body: Json = None, params: Params | None = None, *, seconds: float | None = None
    ) -> Json:
        """Ask for a change, once; OutcomeUnknown when it was sent and no answer came, by default in a minute."""
        answer = self._send(method, path, body=body, params=params, seconds=seconds)
        return read_json(answer) if answer.content else None

    def close(self) -> None:
        """Let connections go."""
        self._http.close()

    def _call(self, method: str, path: str, *, body: Json = None, params: Params | None = None) -> Json:
        answer = self._send(method, path, body=body, params=params)
        return read_json(answer) if answer.content else None

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: Json = None,
        params: Params | None = None,
        seconds: float | None = None,
    ) -> httpx.Response:
        timeout = httpx.USE_CLIENT_DEFAULT if seconds is None else httpx.Timeout(seconds, connect=CONNECT_SECONDS)
        query = {name: value for name, value in (params or {}).items() if value is not None}
        try:
            answer = self._http.request(method, f"{API}{path}", json=body, params=query, timeout=timeout)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise build_unreachable(self.url, error) from error
        except httpx.RequestError as error:
            raise build_lost(self.url, method, f"did not answer ({type(error).__name__})") from error
        if answer.is_success:
            return answer
        raise read_error(self.url, answer)


def build_lost(url: str, method: str, reason: str) -> FirnError:
    """The error for a request that was sent, and that nobody has answered."""
    if method == "GET":
        return Unreachable(f"{url} {reason}", hint="read the server's log, and try again")
    return OutcomeUnknown(
        f"{url} {reason}: the request may or may not have taken effect", hint="check the result before you repeat it"
    )


def build_headers(token: str | None) -> dict[str, str]:
    """The headers of every request. Invalid for a token that cannot be one."""
    if token is not None and not (token.isascii() and token.isprintable()):
        raise Invalid("the token has characters that no token contains", hint="check --token or FIRN_TOKEN")
    headers = {"X-Client-Version": f"firn {version('firn')}"}  # what histories name as the engine
    return headers | ({"Authorization": f"Bearer {token}"} if token else {})


def read_json(answer: httpx.Response) -> Json:
    """The document of an answer. ServerFault if it is none."""
    try:
        return answer.json()
    except ValueError as error:
        raise ServerFault(
            f"{answer.url.copy_with(path='/')} does not answer like Firn", hint="check the address and port"
        ) from error


def read_error(url: str, answer: httpx.Response) -> FirnError:
    """The error for an answer that is no success."""
    if answer.status_code in _OF_GATEWAYS and "json" not in answer.headers.get("content-type", ""):
        return build_lost(url, answer.request.method, f"does not answer its gateway ({answer.status_code})")
    body = read_json(answer)
    problem = body.get("error") if isinstance(body, dict) else None
    if not isinstance(problem, dict) or "message" not in problem:
        detail = body.get("detail") if isinstance(body, dict) else None
        problem = {"message": f"{answer.request.method} {answer.url.path}: {detail or answer.reason_phrase}"}
    return build_error(answer.status_code, problem)


def build_unreachable(url: str, error: Exception) -> Unreachable:
    """The error for a connection that nobody accepts."""
    return Unreachable(
        f"no Firn server answers at {url} ({error})",
        hint="start one with `firn up`, or name another by --server or FIRN_SERVER",
    )


def build_error(status: int, problem: Mapping[str, Json]) -> FirnError:
    """The error for an answer's status and the `error` of its body, of either API."""
    kind = _BY_STATUS.get(status, ServerFault)
    if problem.get("code") == "unknown":
        kind = OutcomeUnknown
    hint = problem.get("hint")
    if kind is Unauthenticated:
        hint = "name a token by --token, FIRN_TOKEN or firn.connect(token=…); administrators create tokens"
    return kind(problem["message"], hint=hint, request_id=problem.get("request_id"), code=problem.get("code"))
