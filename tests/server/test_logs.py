"""The server's log has one line for each fact."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator

import pytest
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TTransportException

from server.logs import configure


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


def test_a_metastore_that_is_away_fills_no_log_with_tracebacks(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    configure("info")
    assert root.handlers
    with pytest.raises(TTransportException):
        TSocket("127.0.0.1", port).open()
    assert "connect" not in capsys.readouterr().err
