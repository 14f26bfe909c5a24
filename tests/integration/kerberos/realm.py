"""A Kerberos realm of our own: MIT's KDC on loopback, with its database in a temporary directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from firn.embedded.ports import LOOPBACK, free_port, is_open
from firn.embedded.process import GuardedProcess, read_last_lines

NAME = "FIRN.TEST"
_NEEDS = "a KDC for the tests is not installed: apt-get install krb5-kdc krb5-admin-server libfaketime"
_START_SECONDS = 20
_CLIENTS = """\
[libdefaults]
  default_realm = {name}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
[realms]
  {name} = {{
    kdc = {host}:{port}
  }}
[domain_realm]
  localhost = {name}
"""
_KDC = """\
[kdcdefaults]
  kdc_listen = {host}:{port}
  kdc_tcp_listen = {host}:{port}
[realms]
  {name} = {{
    database_name = {directory}/principals
    key_stash_file = {directory}/stash
    acl_file = {directory}/acl
    max_life = 1d
  }}
"""


class Realm:
    """A realm with a running KDC."""

    def __init__(self, directory: Path) -> None:
        """Make the realm and start its KDC; skips nothing: a machine without a KDC fails the test."""
        self.directory, self.conf = directory, directory / "krb5.conf"
        self._port = free_port()
        values = {"name": NAME, "host": LOOPBACK, "port": self._port, "directory": directory}
        self.conf.write_text(_CLIENTS.format(**values), encoding="utf-8")
        (directory / "kdc.conf").write_text(_KDC.format(**values), encoding="utf-8")
        (directory / "acl").touch()
        self._run("kdb5_util", "create", "-s", "-r", NAME, "-P", "master")
        self._kdc: GuardedProcess | None = None
        self.start()

    @property
    def environment(self) -> dict[str, str]:
        """What a client of the realm needs in its environment."""
        return {"KRB5_CONFIG": str(self.conf)}

    @property
    def java(self) -> str:
        """The option of a JVM of the realm."""
        return f"-Djava.security.krb5.conf={self.conf}"

    def client(self, keytab: Path) -> dict[str, str]:
        """The environment of a process that takes tickets from a keytab."""
        return {"KRB5_CLIENT_KTNAME": f"FILE:{keytab}", "KRB5CCNAME": f"{keytab}.cache"}

    def add(self, principal: str, *, lifetime: str = "1 day") -> None:
        """Add a principal with random keys, whose tickets last that long."""
        self.administer(f'addprinc -randkey -maxlife "{lifetime}" {principal}')

    def export(self, keytab: str, *principals: str) -> Path:
        """Write a keytab with new keys of the principals; keys of earlier keytabs are old then."""
        path = self.directory / keytab
        for principal in principals:
            self.administer(f"ktadd -k {path} {principal}")
        return path

    def administer(self, query: str) -> str:
        """Run a query of `kadmin.local`; returns what it prints."""
        return self._run("kadmin.local", "-q", query)

    def start(self, *, clock: str = "+0s") -> None:
        """Start the KDC, and wait until it listens. Its clock goes before ours (`+15m`), or after it (`-15m`)."""
        log = self.directory / "kdc.log"
        environment = self.environment | {"KRB5_KDC_PROFILE": str(self.directory / "kdc.conf")}
        program = [*_set_clock(clock), _program("krb5kdc"), "-n"]
        self._kdc = GuardedProcess(program, log=log, cwd=self.directory, environment=environment)
        until = time.monotonic() + _START_SECONDS
        while not is_open(self._port):
            assert self._kdc.exit_status is None, read_last_lines(log)
            assert time.monotonic() < until, read_last_lines(log)
            time.sleep(0.05)

    def stop(self) -> None:
        """End the KDC; the realm stays."""
        if self._kdc is not None:
            self._kdc.stop()
            self._kdc = None

    def _run(self, program: str, *arguments: str) -> str:
        environment = self.environment | {"KRB5_KDC_PROFILE": str(self.directory / "kdc.conf")}
        done = subprocess.run(
            [_program(program), *arguments],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def _set_clock(clock: str) -> list[str]:
    """The command before that of a program with this clock. `faketime` itself would live beside the program."""
    if clock == "+0s":
        return []
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    if library is None:
        pytest.fail(_NEEDS)
    return ["/usr/bin/env", f"LD_PRELOAD={library}", f"FAKETIME={clock}"]


def _program(name: str) -> str:
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        pytest.fail(_NEEDS)
    return path
