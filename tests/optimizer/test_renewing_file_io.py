"""Credentials that end are renewed before that; a server that is away for a moment does no harm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from optimizer.errors import LeaseLost, Refused
from optimizer.renewing_file_io import ENDS_AT, RenewingFileIO, explain_ended_credentials, open_files

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@dataclass
class Server:
    """Gives credentials that are valid for an hour, at the time that the test says."""

    now: datetime = NOON
    requests: int = 0
    failure: Exception | None = None
    files: RenewingFileIO = field(init=False)

    def __post_init__(self) -> None:
        self.files = RenewingFileIO(self.credentials(), self.renew, lambda: self.now)

    def credentials(self) -> Mapping[str, str]:
        ends_at = int((self.now + HOUR).timestamp() * 1000)
        keys = {"s3.access-key-id": f"key-{self.requests}", "s3.secret-access-key": "secret"}
        return {"s3.region": "x", **keys, ENDS_AT: str(ends_at)}

    def renew(self) -> Mapping[str, str]:
        self.requests += 1
        if self.failure is not None:
            raise self.failure
        return self.credentials()

    def open(self, minutes: int) -> str:
        """Open a file so many minutes after noon; the key with which it was opened."""
        self.now = NOON + timedelta(minutes=minutes)
        self.files.new_input("s3://bucket/file")
        return str(self.files.properties["s3.access-key-id"])


def test_new_credentials_come_when_a_third_of_the_time_is_left() -> None:
    server = Server()
    assert [server.open(minutes) for minutes in (0, 39, 41, 79, 82)] == ["key-0", "key-0", "key-1", "key-1", "key-2"]
    assert server.requests == 2


def test_a_server_that_is_away_is_asked_again_after_a_pause() -> None:
    server = Server(failure=httpx.ConnectError("away"))
    assert [server.open(minutes) for minutes in (41, 41)] == ["key-0", "key-0"]
    assert server.requests == 1
    server.failure = None
    assert server.open(42) == "key-2"


def test_without_a_server_no_file_is_opened_after_they_have_ended() -> None:
    server = Server(failure=httpx.ConnectError("away"))
    with pytest.raises(httpx.ConnectError):
        server.open(61)
    server.failure = LeaseLost("the lease has ended")
    with pytest.raises(LeaseLost):
        server.open(61)


def test_a_catalog_that_vends_no_more_is_named() -> None:
    server = Server()
    server.files._request = dict
    with pytest.raises(Refused, match="the catalog gives no others for this table"):
        server.open(41)


def test_a_failure_after_the_end_is_explained() -> None:
    server = Server()
    with pytest.raises(OSError, match="broken"), explain_ended_credentials(server.files):
        raise OSError("broken")
    server.now = NOON + HOUR
    with (
        pytest.raises(Refused, match="before the job had read and written all of its files"),
        explain_ended_credentials(server.files),
    ):
        raise OSError("Access Denied")


def test_credentials_that_never_end_are_not_renewed() -> None:
    assert not isinstance(open_files({"s3.region": "x"}, "s3://bucket/table", dict), RenewingFileIO)
