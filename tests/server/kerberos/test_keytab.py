"""What a keytab says about whose keys it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.kerberos.keytab import find_principal, read_principals, resolve_host
from tests.server.kerberos.keytabs import write_keytab


@pytest.mark.parametrize("principal", ["firn", "firn@FIRN.TEST"])
def test_a_principal_is_found_with_its_realm(tmp_path: Path, principal: str) -> None:
    keytab = write_keytab(tmp_path / "k", "firn@FIRN.TEST", "firn@FIRN.TEST", "firn/node1@FIRN.TEST")
    assert find_principal(keytab, principal) == "firn@FIRN.TEST"
    assert read_principals(keytab, principal) == ["firn/node1@FIRN.TEST", "firn@FIRN.TEST"]


def test_a_principal_of_a_host_is_found(tmp_path: Path) -> None:
    keytab = write_keytab(tmp_path / "k", "firn/node1@FIRN.TEST")
    assert find_principal(keytab, resolve_host("firn/_HOST", "Node1")) == "firn/node1@FIRN.TEST"


def test_the_wrong_realm_is_refused_with_the_right_one(tmp_path: Path) -> None:
    keytab = write_keytab(tmp_path / "k", "firn@FIRN.TEST")
    with pytest.raises(ValueError, match=r"has no key of firn@OTHER, only of firn@FIRN\.TEST; correct the principal"):
        find_principal(keytab, "firn@OTHER")


def test_a_name_in_two_realms_needs_its_realm(tmp_path: Path) -> None:
    keytab = write_keytab(tmp_path / "k", "firn@B", "firn@A")
    with pytest.raises(ValueError, match="in several realms: add the realm, one of firn@A, firn@B"):
        find_principal(keytab, "firn")


@pytest.mark.parametrize("data", [b"", b"\x05\x01rest", b"secret", b"\x05\x02\0\0\0\x20\0\x01\0\x09FIRN"])
def test_what_is_no_keytab_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "k").write_bytes(data)
    with pytest.raises(ValueError, match=r"is no keytab, or is cut off; export it with `kadmin"):
        find_principal(tmp_path / "k", "firn")


def test_a_missing_keytab_and_a_directory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"does not exist; export it with `kadmin -q 'ktadd -k \S+ firn'`"):
        find_principal(tmp_path / "k", "firn")
    with pytest.raises(ValueError, match="cannot be read: Is a directory"):
        find_principal(tmp_path, "firn")


def test_a_keytab_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ValueError, match="cannot be read by the server's user; give it to this user, mode 600"):
        find_principal(tmp_path / "k", "firn")
