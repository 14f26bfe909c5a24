"""The server, as an optimizer sees it: leases over the management API, expiry over the Iceberg REST API."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from firn.protocol.answers.optimizers import RegisteredOut
from firn.protocol.backfills import Claimed, ClaimRequest
from firn.protocol.beside import ChunkCommitted, ChunkState, CommitChunk, TakeChunk, TakenChunk
from firn.protocol.jobs import JobKind
from firn.protocol.leases import PROTOCOL, Heartbeat, Lease, LeaseRequest, Report, Result, TableLocation
from firn.protocol.pipeline_pins import MoveCheckpoint, PinRequest, Pins
from firn.protocol.pipelines import PublishRun
from firn.protocol.streams import StreamHeartbeat, StreamLease, StreamLeaseRequest, StreamReport
from firn.protocol.tasks.image import BegunImage, CompleteRequest, ImageCredentials
from firn.protocol.tasks.merge import AdoptRequest, StoreSummary
from firn.transport import is_loopback
from optimizer.errors import Dismissed, LeaseLost, NotWelcome, Refused, Unknown, Unregistered

LEASE_HEADER = "X-Firn-Lease"
STREAM_LEASE_HEADER = "X-Firn-Stream-Lease"
WAIT_SECONDS = 5.0  # also how long an idle optimizer takes to stop
_NOT_WELCOME = (
    httpx.codes.BAD_REQUEST,
    httpx.codes.UNAUTHORIZED,
    httpx.codes.FORBIDDEN,
    httpx.codes.CONFLICT,
    httpx.codes.UNPROCESSABLE_ENTITY,
)
BEGIN_SECONDS = 30.0
PUBLISH_SECONDS = 120.0
COMMIT_PAUSES = (0.2, 1.0, 3.0)
"""Seconds before a commit is sent again after a refusal that may be temporary."""
TIMEOUT = httpx.Timeout(30.0, read=WAIT_SECONDS + 20.0)


@dataclass(frozen=True)
class ServerApi:
    """A client of one server.

    Methods raise httpx.HTTPError if the server does not answer, or not now; a repeated request is then safe. They raise
    NotWelcome if the server no longer knows the token, Refused if it denies the request.
    """

    http: httpx.Client

    @property
    def url(self) -> str:
        """The server's address."""
        return str(self.http.base_url).rstrip("/")

    @property
    def token(self) -> str | None:
        """The access token of the requests."""
        scheme, _, token = self.http.headers.get("Authorization", "").partition(" ")
        return token if scheme == "Bearer" else None

    def register(self, **about: Any) -> RegisteredOut:
        """Register; raises NotWelcome if the server refuses the optimizer's version or privileges."""
        answer = self.http.post("/api/v1/optimizers", json={**about, "protocol": PROTOCOL})
        if answer.status_code in _NOT_WELCOME:
            raise NotWelcome(_message(answer))
        return RegisteredOut.read(answer.raise_for_status().json())

    def unregister(self, optimizer_id: str) -> None:
        """Unregister; jobs of this optimizer return to the queue at once."""
        self.http.delete(f"/api/v1/optimizers/{optimizer_id}").raise_for_status()

    def take_lease(
        self,
        optimizer_id: str,
        kinds: Sequence[str],
        *,
        allow_code: bool = False,
        wait_seconds: float = WAIT_SECONDS,
        memory: Mapping[str, int] | None = None,
    ) -> Lease | None:
        """The next job, waited for a while; None when there is none.

        Unregistered when the server has forgotten us, Dismissed when it wants us to leave, NotWelcome when we may not
        ask any more.
        """
        request = LeaseRequest(
            optimizer_id=optimizer_id,
            kinds=[JobKind(kind) for kind in kinds],
            allow_code=allow_code,
            wait_seconds=wait_seconds,
            memory=dict(memory or {}),
        )
        answer = self.ask_for_work("/api/v1/leases", optimizer_id, request)
        return None if answer is None else Lease.model_validate(answer)

    def ask_for_work(self, path: str, optimizer_id: str, request: BaseModel) -> Any:
        """The answer to a request for a lease; None when nothing waits. Raises as `take_lease`."""
        answer = self.http.post(path, json=request.model_dump(mode="json"))
        if answer.status_code == httpx.codes.NOT_FOUND:
            raise Unregistered(f"the server does not know optimizer {optimizer_id}")
        if answer.status_code == httpx.codes.CONFLICT:
            raise Dismissed(_message(answer))
        if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise NotWelcome(_message(answer))
        answer.raise_for_status()
        return None if answer.status_code == httpx.codes.NO_CONTENT else answer.json()

    def take_stream(self, optimizer_id: str, *, wait_seconds: float = WAIT_SECONDS) -> StreamLease | None:
        """The next stream, waited for a while; None when none waits. Raises as `take_lease`."""
        request = StreamLeaseRequest(optimizer_id=optimizer_id, wait_seconds=wait_seconds)
        answer = self.ask_for_work("/api/v1/stream-leases", optimizer_id, request)
        return None if answer is None else StreamLease.model_validate(answer)

    def beat_stream(self, lease: StreamLease, heartbeat: StreamHeartbeat) -> None:
        """Renew the lease of a stream; raises LeaseLost if it has ended."""
        check_lease(self.http.put(_stream_path(lease), json=heartbeat.model_dump(mode="json")))

    def report_stream(self, lease: StreamLease, report: StreamReport) -> None:
        """Tell how an attempt at a stream ended; LeaseLost when it was not ours to tell any more."""
        check_lease(self.http.post(f"{_stream_path(lease)}/report", json=report.model_dump(mode="json")))

    def beat(
        self, lease: Lease, progress: Mapping[str, Any], log: Sequence[str], memory: Mapping[str, int] | None = None
    ) -> None:
        """Renew the lease; raises LeaseLost if it has ended."""
        heartbeat = Heartbeat(progress=dict(progress), log=list(log), memory=dict(memory or {}))
        answer = self.http.put(self._lease(lease), json=heartbeat.model_dump(mode="json"))
        check_lease(answer)

    def committing(self, lease: Lease) -> None:
        """Announce the commit; raises LeaseLost if the lease has ended."""
        check_lease(self.http.post(f"{self._lease(lease)}/committing"))

    def report(self, lease: Lease, result: Result, log: Sequence[str]) -> None:
        """Tell how the attempt ended; LeaseLost when it was not ours to tell any more."""
        report = Report(outcome=result.outcome, error=result.error, result=result.result, log=list(log))
        check_lease(self.http.post(f"{self._lease(lease)}/report", json=report.model_dump(mode="json")))

    def ask(self, lease: Lease, part: str, body: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:
        """Have the server do a part of the job; LeaseLost when the lease has ended, Refused with the reason."""
        answer = self.http.post(f"{self._lease(lease)}/{part}", json=dict(body), timeout=seconds)
        check_lease(answer)
        done: dict[str, Any] = answer.json()
        return done

    def publish(
        self, lease: Lease, location: str, *, rows: int, unrepresentable: Collection[str], reason: str, seconds: float
    ) -> dict[str, Any]:
        """Have the server register the rows that lie there and point Hive at them; outcomes as of `commit_table`.

        `rows` does not count rows of `unrepresentable` partitions; `reason` says what Hive cannot hold.
        """
        body = {"location": location, "rows": rows, "unrepresentable": sorted(unrepresentable), "reason": reason}
        return self._ask_to_commit(lease, "published", body, seconds=seconds)

    def adopt(self, lease: Lease, request: AdoptRequest, *, seconds: float) -> StoreSummary:
        """Have the server commit a layer to base; outcomes as of `commit_table`."""
        answer = self._ask_to_commit(lease, "adopted", request.model_dump(mode="json"), seconds=seconds)
        return StoreSummary.model_validate(answer)

    def clean(self, lease: Lease, files: Sequence[str], *, seconds: float) -> StoreSummary:
        """Have the server take merged files out of the change store; outcomes as of `commit_table`."""
        answer = self._ask_to_commit(lease, "cleaned", {"files": list(files)}, seconds=seconds)
        return StoreSummary.model_validate(answer)

    def begin_image(self, lease: Lease) -> BegunImage:
        """Have the server note down the build of an image; LeaseLost when the lease has ended."""
        return BegunImage.model_validate(self.ask(lease, "image", {}, seconds=BEGIN_SECONDS))

    def renew_image_credentials(self, lease: Lease) -> ImageCredentials:
        """Ask for new credentials of a build; LeaseLost when the lease has ended."""
        return ImageCredentials.model_validate(self.ask(lease, "image/credentials", {}, seconds=BEGIN_SECONDS))

    def complete_image(self, lease: Lease, request: CompleteRequest, *, seconds: float) -> None:
        """Have the server write the image's manifests and metadata. It may be asked again."""
        self.ask(lease, "image/complete", request.model_dump(mode="json"), seconds=seconds)

    def pin_pipeline(self, lease: Lease, request: PinRequest) -> Pins:
        """Register the writers of a pipeline's run, and pin its inputs. Asked again, it ends the copy before."""
        return Pins.model_validate(self.ask(lease, "pins", request.model_dump(mode="json"), seconds=BEGIN_SECONDS))

    def move_checkpoint(self, lease: Lease, step: MoveCheckpoint) -> None:
        """Move the writer of a pipeline's run without a commit. It may be asked again."""
        self.ask(lease, "checkpoint", step.model_dump(mode="json"), seconds=BEGIN_SECONDS)

    def publish_run(self, lease: Lease, request: PublishRun) -> bool:
        """Commit all tables of a pipeline's run; whether the commit waits for approval instead.

        Raises Unknown if nobody knows whether they were committed.
        """
        answer = self._ask_to_commit(lease, "publish", request.model_dump(mode="json"), seconds=PUBLISH_SECONDS)
        return bool(answer.get("held"))

    def claim_chunks(self, lease: Lease, request: ClaimRequest) -> Claimed:
        """Let the commit of a pipeline's run end all chunks of a table's backfills. It may be asked again."""
        return Claimed.model_validate(self.ask(lease, "chunks", request.model_dump(mode="json"), seconds=BEGIN_SECONDS))

    def take_chunk(self, lease: Lease, request: TakeChunk) -> TakenChunk:
        """Ask for the next chunk of a backfill beside live runs. Asked again, it voids the take before."""
        body = request.model_dump(mode="json")
        return TakenChunk.model_validate(self.ask(lease, "chunk-takes", body, seconds=BEGIN_SECONDS))

    def commit_chunk(self, lease: Lease, request: CommitChunk) -> ChunkState:
        """Commit a chunk beside live runs. Raises Unknown if nobody knows whether it was committed: ask again."""
        body = request.model_dump(mode="json")
        answer = self._ask_to_commit(lease, "chunk-commits", body, seconds=PUBLISH_SECONDS)
        return ChunkCommitted.model_validate(answer).state

    def _ask_to_commit(self, lease: Lease, part: str, body: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:
        try:
            answer = self.http.post(f"{self._lease(lease)}/{part}", json=dict(body), timeout=seconds)
        except httpx.ConnectError:
            raise
        except httpx.TransportError as error:
            raise Unknown(f"no answer to the commit: {error}") from error
        if not answer.is_success and not answer.is_client_error:
            raise Unknown(_message(answer))
        check_lease(answer)
        done: dict[str, Any] = answer.json()
        return done

    def check_locations(self, lease: Lease, locations: Sequence[str]) -> None:
        """Ask whether the job may open files in these directories, or these files; Refused when one of them it may not.

        LeaseLost when the lease has ended.
        """
        answer = self.http.post(f"{self._lease(lease)}/locations", json={"locations": list(locations)})
        check_lease(answer)

    def own_places(self, lease: Lease) -> list[TableLocation]:
        """Ask for the directories of the job's tables, and whether no other table shares them. Raises LeaseLost."""
        answer = self.http.get(f"{self._lease(lease)}/table-locations")
        check_lease(answer)
        return [TableLocation.model_validate(location) for location in answer.json()]

    def load_table(
        self, lease: Lease, parts: Sequence[str], headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Load the metadata of an Iceberg table, its location and, with headers that ask for them, its credentials."""
        answer = self.http.get(_table_path(lease, parts), headers={LEASE_HEADER: lease.lease, **(headers or {})})
        _check(answer)
        loaded: dict[str, Any] = answer.json()
        return loaded

    def commit_table(self, lease: Lease, parts: Sequence[str], change: Mapping[str, Any]) -> dict[str, Any]:
        """Commit under the lease; return the table after the commit.

        Raises LeaseLost or Refused if the server certainly did not apply it, Unknown if the outcome is unknown,
        httpx.HTTPError if the server certainly did not read it. The client repeats commits that were certainly not
        applied, as Java's client does: another commit may have come first, or the database may have been away for a
        moment.
        """
        answer = self._send_commit(lease, parts, change)
        for pause in COMMIT_PAUSES:
            if answer.status_code != httpx.codes.CONFLICT:
                break
            time.sleep(pause)
            answer = self._send_commit(lease, parts, change)
        if not answer.is_success and not answer.is_client_error:
            raise Unknown(_message(answer))
        _check(answer)
        committed: dict[str, Any] = answer.json()
        return committed

    def _send_commit(self, lease: Lease, parts: Sequence[str], change: Mapping[str, Any]) -> httpx.Response:
        try:
            return self.http.post(_table_path(lease, parts), json=dict(change), headers={LEASE_HEADER: lease.lease})
        except httpx.ConnectError:
            raise
        except httpx.TransportError as error:
            raise Unknown(f"no answer to the commit: {error}") from error

    def _lease(self, lease: Lease) -> str:
        return f"/api/v1/leases/{quote(lease.lease, safe='')}"


def connect(url: str, *, token: str | None = None, transport: httpx.BaseTransport | None = None) -> ServerApi:
    """The server at an address."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    address = url.rstrip("/")
    http = httpx.Client(
        base_url=address, headers=headers, timeout=TIMEOUT, transport=transport, trust_env=not is_loopback(address)
    )
    return ServerApi(http)


def _stream_path(lease: StreamLease) -> str:
    return f"/api/v1/stream-leases/{quote(lease.lease, safe='')}"


def _table_path(lease: Lease, parts: Sequence[str]) -> str:
    *namespace, name = (quote(part, safe="") for part in parts)
    return f"/iceberg/v1/{quote(lease.catalog, safe='')}/namespaces/{'%1F'.join(namespace)}/tables/{name}"


def check_lease(answer: httpx.Response) -> None:
    """404 is a job that is gone altogether: there is as little left to do as without the lease."""
    if answer.status_code == httpx.codes.NOT_FOUND:
        raise LeaseLost(_message(answer))
    _check(answer)


def _check(answer: httpx.Response) -> None:
    """Make the error of a refusal; 429 and 5xx are temporary and count as no answer."""
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        raise NotWelcome(_message(answer))
    if answer.status_code == httpx.codes.FORBIDDEN and _says_lease_lost(answer):
        raise LeaseLost(_message(answer))
    if answer.is_client_error and answer.status_code != httpx.codes.TOO_MANY_REQUESTS:
        raise Refused(_message(answer))
    answer.raise_for_status()


def _says_lease_lost(answer: httpx.Response) -> bool:
    """Whether a 403 says that the lease is lost; it may also say that a privilege is missing."""
    try:
        error = answer.json()["error"]
        return bool(error.get("code") == "lease_lost" or error.get("type") == "LeaseLostException")
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def _message(answer: httpx.Response) -> str:
    try:
        error = answer.json()["error"]
        return "; ".join(str(error[part]) for part in ("message", "hint") if error.get(part))
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{answer.status_code} {answer.reason_phrase}"
