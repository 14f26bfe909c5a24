"""The settings of `[hadoop]`."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest
from pydantic import ValidationError

from server.component_settings import make_tickets
from server.hadoop import apply_settings
from server.settings import load_settings
from tests.server.kerberos.keytabs import write_keytab


def test_a_directory_without_the_clusters_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client would ignore it and call another name node, or none."""
    monkeypatch.setenv("FIRN_HADOOP__CONF_DIR", str(tmp_path))
    with pytest.raises(ValidationError, match=r"neither core-site\.xml nor hdfs-site\.xml"):
        load_settings(None)
    (tmp_path / "core-site.xml").write_text("<configuration><prop", encoding="utf-8")
    with pytest.raises(ValidationError, match=r"core-site\.xml is no XML file"):
        load_settings(None)
    (tmp_path / "core-site.xml").write_text("<configuration/>", encoding="utf-8")
    assert load_settings(None).hadoop.conf_dir == tmp_path


def test_the_client_finds_the_settings_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop/conf")
    monkeypatch.setenv("HADOOP_USER_NAME", "hive")
    apply_settings(None, None)
    assert (os.environ["HADOOP_CONF_DIR"], os.environ["HADOOP_USER_NAME"]) == ("/etc/hadoop/conf", "hive")
    apply_settings(tmp_path, "firn")
    assert (os.environ["HADOOP_CONF_DIR"], os.environ["HADOOP_USER_NAME"]) == (str(tmp_path), "firn")


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a cluster with Kerberos, and settings that name them."""
    kerberos = "<property><name>hadoop.security.authentication</name><value>Kerberos</value></property>"
    (tmp_path / "core-site.xml").write_text(f"<configuration>{kerberos}</configuration>", encoding="utf-8")
    monkeypatch.setenv("FIRN_HADOOP__CONF_DIR", str(tmp_path))
    monkeypatch.setenv("FIRN_HADOOP__PRINCIPAL", "firn")
    monkeypatch.setenv("FIRN_HADOOP__KEYTAB", str(write_keytab(tmp_path / "firn.keytab", "firn@FIRN.TEST")))
    return tmp_path


def test_a_principal_with_its_keytab_makes_tickets(secure: Path) -> None:
    tickets = make_tickets(load_settings(None, data_dir=secure / "data"))
    assert tickets is not None
    assert (tickets.principal, tickets.keytab) == ("firn@FIRN.TEST", secure / "firn.keytab")
    assert tickets.cache == secure / "data" / "krb5cc"


def test_no_principal_makes_no_tickets() -> None:
    assert make_tickets(load_settings(None)) is None


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("KEYTAB", None, "hadoop.principal and hadoop.keytab need each other"),
        ("PRINCIPAL", None, "hadoop.principal and hadoop.keytab need each other"),
        ("PRINCIPAL", "firn@A@B", "'firn@A@B' is no principal: write NAME, NAME/HOST, NAME@REALM or NAME/HOST@REALM"),
        ("PRINCIPAL", "firn/a/b", "'firn/a/b' is no principal: write NAME"),
        ("PRINCIPAL", "firn/@R", "'firn/@R' is no principal: write NAME"),
        ("PRINCIPAL", "firn/a@R", "has no key of firn/a@R, only of firn@FIRN.TEST; correct the principal"),
        ("PRINCIPAL", "firn@OTHER", "has no key of firn@OTHER, only of firn@FIRN.TEST"),
        ("KEYTAB", "/nowhere/firn.keytab", "/nowhere/firn.keytab does not exist; export it"),
        ("USER", "hive", "hadoop.user is for clusters without Kerberos"),
    ],
)
@pytest.mark.usefixtures("secure")
def test_half_a_configuration_of_kerberos_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str | None, message: str
) -> None:
    if text is None:
        monkeypatch.delenv(f"FIRN_HADOOP__{name}")
    else:
        monkeypatch.setenv(f"FIRN_HADOOP__{name}", text)
    with pytest.raises(ValidationError, match=re.escape(message)):
        load_settings(None)


def test_a_principal_for_a_cluster_without_kerberos_is_refused(secure: Path) -> None:
    (secure / "core-site.xml").write_text("<configuration/>", encoding="utf-8")
    with pytest.raises(ValidationError, match=r"says hadoop\.security\.authentication=simple; set it to kerberos"):
        load_settings(None)


def test_a_host_that_stands_for_another_machine_is_explained(secure: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that does not know its full name calls itself localhost, or by its short name."""
    keytab = write_keytab(secure / "node.keytab", "firn/node1.example.com@FIRN.TEST")
    monkeypatch.setenv("FIRN_HADOOP__KEYTAB", str(keytab))
    monkeypatch.setenv("FIRN_HADOOP__PRINCIPAL", "firn/_HOST")
    monkeypatch.setattr(socket, "getfqdn", lambda: "localhost")
    words = (
        "has no key of firn/localhost, only of firn/node1.example.com@FIRN.TEST",
        "_HOST is this machine's name, as DNS or /etc/hosts gives it; hadoop.principal may name another host",
    )
    with pytest.raises(ValidationError) as refused:
        load_settings(None)
    assert [text for text in words if text not in str(refused.value)] == []
    monkeypatch.setenv("FIRN_HADOOP__PRINCIPAL", "firn/node1.example.com@FIRN.TEST")
    assert load_settings(None).hadoop.resolved_principal == "firn/node1.example.com@FIRN.TEST"


def test_a_keytab_that_the_server_may_not_read_is_explained(secure: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ValidationError, match=f"{secure}/firn.keytab cannot be read by the server's user; give it to"):
        load_settings(None)


@pytest.mark.parametrize(
    ("principal", "words"),
    [
        ("hive", "'hive' has no host: write SERVICE/HOST or SERVICE/HOST@REALM, with _HOST for the address"),
        ("hive@REALM", "'hive@REALM' has no host"),
        ("hive/h/more", "'hive/h/more' is no principal: write NAME"),
        ("hive/h@", "'hive/h@' is no principal: write NAME"),
    ],
)
def test_a_metastores_principal_has_a_service_and_a_host(
    monkeypatch: pytest.MonkeyPatch, principal: str, words: str
) -> None:
    monkeypatch.setenv("FIRN_HIVE__KERBEROS_PRINCIPAL", principal)
    with pytest.raises(ValidationError, match=re.escape(words)):
        load_settings(None)
