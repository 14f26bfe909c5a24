"""Keytabs: whose keys a file has. The keys themselves only the library reads."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

_MAGIC = b"\x05\x02"
_EXPORT = "export it with `kadmin -q 'ktadd -k {path} {principal}'`"


def resolve_host(principal: str, host: str | None = None) -> str:
    """Replace `_HOST`, as Hadoop's files write it, by a host's name in small letters; None means this machine."""
    return principal.replace("/_HOST", f"/{(host or socket.getfqdn()).lower()}", 1)


def find_principal(keytab: Path, principal: str) -> str:
    """The principal as the keytab has it, with its realm; ValueError says what is wrong and what to do."""
    names = read_principals(keytab, principal)
    suitable = [name for name in names if name == principal or name.rpartition("@")[0] == principal]
    if len(suitable) == 1:
        return suitable[0]
    if suitable:
        raise ValueError(f"{keytab} has {principal} in several realms: add the realm, one of {', '.join(suitable)}")
    raise ValueError(
        f"{keytab} has no key of {principal}, only of {', '.join(names) or 'nobody'}; correct the principal, or "
        + _EXPORT.format(path=keytab, principal=principal)
    )


def read_principals(keytab: Path, principal: str) -> list[str]:
    """The principals of a keytab, sorted; `principal` is for the advice in a ValueError."""
    try:
        data = keytab.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{keytab} does not exist; {_EXPORT.format(path=keytab, principal=principal)}") from None
    except PermissionError:
        raise ValueError(f"{keytab} cannot be read by the server's user; give it to this user, mode 600") from None
    except OSError as error:
        raise ValueError(f"{keytab} cannot be read: {error.strerror}") from None
    try:
        return sorted(set(_parse(data)))
    except (struct.error, UnicodeDecodeError, ValueError):
        advice = _EXPORT.format(path=keytab, principal=principal)
        raise ValueError(f"{keytab} is no keytab, or is cut off; {advice}") from None


def _parse(data: bytes) -> list[str]:
    """The principal of each key; ValueError or struct.error if it is no keytab of version 2, the only one in use."""
    if not data.startswith(_MAGIC):
        raise ValueError("no keytab")
    names, at = [], len(_MAGIC)
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        at += 4
        if size > 0:  # a deleted key leaves a hole of a negative size
            names.append(_parse_name(data[at : at + size]))
        at += abs(size)
    return names


def _parse_name(entry: bytes) -> str:
    (count,) = struct.unpack_from(">H", entry)
    texts, at = [], 2
    for _ in range(count + 1):
        (length,) = struct.unpack_from(">H", entry, at)
        text = entry[at + 2 : at + 2 + length]
        if len(text) < length:
            raise ValueError("cut off")
        texts.append(text.decode())
        at += 2 + length
    realm, *components = texts
    return f"{'/'.join(components)}@{realm}"
