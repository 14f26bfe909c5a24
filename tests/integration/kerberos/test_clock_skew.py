"""A KDC whose clock differs from those of the server and of the name node, by a quarter of an hour."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.command_line import Command
from tests.integration.kerberos.cluster import SecureHdfs
from tests.spark_fixtures import ServerProcess, server_process

USER = "late"
CORRECT = "correct the clocks"
RENEWED_SECONDS = 30


@contextmanager
def server_with(hdfs: SecureHdfs, directory: Path, options: str) -> Iterator[ServerProcess]:
    """A server that has no ticket yet; `options` are further ones of its krb5.conf."""
    conf = directory / "krb5.conf"
    conf.write_text(
        hdfs.realm.conf.read_text(encoding="utf-8").replace("[libdefaults]", f"[libdefaults]\n{options}"), "utf-8"
    )
    settings = {
        **hdfs.settings,
        "KRB5_CONFIG": str(conf),
        "FIRN_HADOOP__PRINCIPAL": USER,
        "FIRN_HADOOP__KEYTAB": str(hdfs.realm.directory / "late.keytab"),
        "KRB5CCNAME": "FILE:/nowhere",
        "KRB5_CLIENT_KTNAME": "FILE:/nowhere",
    }
    with server_process(directory / "data", **settings) as server:
        yield server


@contextmanager
def kdc_at(hdfs: SecureHdfs, clock: str) -> Iterator[None]:
    """Let the KDC have another clock until the end of the block."""
    hdfs.realm.stop()
    hdfs.realm.start(clock=clock)
    try:
        yield
    finally:
        hdfs.realm.stop()
        hdfs.realm.start()


@pytest.fixture(scope="module", autouse=True)
def principal(hdfs: SecureHdfs) -> None:
    hdfs.realm.add(USER)
    hdfs.realm.export("late.keytab", USER)


def check(server: ServerProcess) -> tuple[int, str]:
    """The exit code of the check, and what it prints, in one line."""
    output = Command(server.url)("admin", "check", "--only", "hadoop")
    return output.code, " ".join(output.out.split())


@pytest.mark.parametrize("clock", ["+15m", "-15m"])
@pytest.mark.parametrize("preauthentication", ["-requires_preauth", "+requires_preauth"])
def test_a_kdc_whose_clock_differs_is_named(
    hdfs: SecureHdfs, tmp_path: Path, clock: str, preauthentication: str
) -> None:
    """With pre-authentication the KDC refuses; without it the library refuses what the KDC says."""
    hdfs.realm.administer(f"modprinc {preauthentication} {USER}")
    with kdc_at(hdfs, clock), server_with(hdfs, tmp_path, "  kdc_timesync = 0") as server:
        code, printed = check(server)
        assert (code, "the KDC gives no ticket: Clock skew too great" in printed) == (1, True), printed
        assert "five minutes: correct them" in printed
        assert CORRECT in printed.partition("no Kerberos ticket for HDFS: Clock skew too great")[2]
        hdfs.realm.stop()
        hdfs.realm.start()
        _, printed = check(server)
        assert "the KDC gives a ticket" in printed or "the ticket is valid until" in printed
        assert "skew" not in printed


def test_a_difference_for_which_the_library_corrects_is_named_too(hdfs: SecureHdfs, tmp_path: Path) -> None:
    """By default it signs with the KDC's clock. The name node refuses that, because its own clock is right."""
    with kdc_at(hdfs, "+15m"), server_with(hdfs, tmp_path, "") as server:
        code, printed = check(server)
    assert (code, "15 min ahead of this machine's" in printed) == (1, True), printed
    assert CORRECT in printed
    assert "clocks of this machine, of the KDC and of the name nodes" in printed.partition("GSS initiate failed")[2]
    with server_with(hdfs, tmp_path, "") as server:  # it has the ticket still, and looks at it when it starts
        until = time.monotonic() + RENEWED_SECONDS
        while "GSS initiate failed" in (printed := check(server)[1]):
            assert time.monotonic() < until, printed
            time.sleep(0.5)
        assert "ahead of" not in printed
        assert "user=late" in printed, "the name node knows who asks"
