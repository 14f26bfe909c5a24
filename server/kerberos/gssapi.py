"""The calls of GSSAPI that Firn needs, through ctypes: no Python package for it has wheels for Linux (decision 89).

It is the library that `hdfs-native` loads as well. All handles belong to one thread at a time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

from server.kerberos.errors import KerberosError

LIBRARY = "libgssapi_krb5.so.2"
_MISSING = f"Kerberos needs {LIBRARY}: apt-get install libgssapi-krb5-2, or dnf install krb5-libs"
_ERROR_BITS = 0xFFFF0000
_CONTINUE_NEEDED = 1
_FLAGS = 2 | 4 | 8 | 16 | 32
"""Both sides authenticate; nothing is replayed or reordered; encryption and signatures are available."""
_FOR_CLIENTS = 1
_GSS_CODE, _MECHANISM_CODE = 1, 2


class _Bytes(Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))


class _Oid(Structure):
    _fields_ = (("length", c_uint32), ("elements", c_char_p))


class _OidSet(Structure):
    _fields_ = (("count", c_size_t), ("elements", POINTER(_Oid)))


class _Element(Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _Store(Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_Element)))


def _make_oid(text: str) -> _Oid:
    elements = bytes.fromhex(text)
    return _Oid(len(elements), elements)


_KRB5 = _make_oid("2a864886f712010202")
_HOST_BASED_SERVICE = _make_oid("2a864886f71201020104")
_PRINCIPAL = _make_oid("2a864886f71201020201")


@cache
def _load() -> Any:
    """The library; KerberosError names the package that has it."""
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise KerberosError(_MISSING) from error


def _call(name: str, *arguments: object) -> int:
    """Call a function whose first argument is the mechanism's code; KerberosError in its words."""
    function = getattr(_load(), name)
    function.restype = c_uint32
    code = c_uint32()
    status: int = function(byref(code), *arguments)
    if status & _ERROR_BITS:
        raise GssError(status & _ERROR_BITS, code.value)
    return status


class GssError(KerberosError):
    """An error status of GSSAPI."""

    def __init__(self, status: int, code: int) -> None:
        text = _describe(code, _MECHANISM_CODE) if code else _describe(status, _GSS_CODE)
        super().__init__(text, ctypes.c_int32(code).value)
        self.status = status


def _describe(status: int, kind: int) -> str:
    """The library's words, which it keeps for the last error of each thread."""
    more, text, code = c_uint32(), _Bytes(), c_uint32()
    _load().gss_display_status(byref(code), c_uint32(status), c_int(kind), byref(_KRB5), byref(more), byref(text))
    return _take(text).decode(errors="replace")


def _take(buffer: _Bytes) -> bytes:
    """Copy the library's bytes and release them."""
    data = ctypes.string_at(buffer.value, buffer.length) if buffer.value else b""
    _load().gss_release_buffer(byref(c_uint32()), byref(buffer))
    return data


def _give(data: bytes) -> _Bytes:
    """Bytes for the library; valid as long as the returned object, which keeps them."""
    kept = ctypes.create_string_buffer(data, len(data))
    buffer = _Bytes(len(data), ctypes.cast(kept, c_void_p))
    buffer.kept = kept
    return buffer


class Name:
    """A principal."""

    def __init__(self, text: str, *, is_service: bool = False) -> None:
        """Parse `PRIMARY/INSTANCE@REALM`, or with `is_service` `SERVICE@HOST`, whose realm krb5.conf tells."""
        self.handle = c_void_p()
        kind = _HOST_BASED_SERVICE if is_service else _PRINCIPAL
        _call("gss_import_name", byref(_give(text.encode())), byref(kind), byref(self.handle))

    def release(self) -> None:
        _load().gss_release_name(byref(c_uint32()), byref(self.handle))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A ticket for getting tickets of services."""

    principal: str
    seconds: int
    """The time until it expires; 0 once it has expired."""


def acquire_ticket(principal: str | None = None, store: Mapping[str, str] | None = None) -> Ticket:
    """Read the ticket in the cache; take a new one from the keytab when half its lifetime has passed.

    `store` names another cache and keytab (`ccache`, `client_keytab`) than the environment does. GssError if there is
    no ticket and none can be had; while the old one is valid, a failed renewal is not an error.
    """
    name = None if principal is None else Name(principal)
    handle = c_void_p()
    try:
        _call(
            "gss_acquire_cred_from",
            None if name is None else name.handle,
            c_uint32(0),
            byref(_OidSet(1, ctypes.pointer(_KRB5))),
            c_int(_FOR_CLIENTS),
            None if store is None else byref(_make_store(store)),
            byref(handle),
            None,
            None,
        )
        return _inquire(handle)
    finally:
        if handle.value is not None:
            _load().gss_release_cred(byref(c_uint32()), byref(handle))
        if name is not None:
            name.release()


def _make_store(entries: Mapping[str, str]) -> _Store:
    elements = (_Element * len(entries))(*(_Element(key.encode(), text.encode()) for key, text in entries.items()))
    return _Store(len(entries), elements)


def _inquire(handle: c_void_p) -> Ticket:
    name, seconds, text = c_void_p(), c_uint32(), _Bytes()
    _call("gss_inquire_cred", handle, byref(name), byref(seconds), None, None)
    try:
        _call("gss_display_name", name, byref(text), None)
    finally:
        _load().gss_release_name(byref(c_uint32()), byref(name))
    return Ticket(principal=_take(text).decode(errors="replace"), seconds=seconds.value)


class SecurityContext:
    """A connection to a service, from this side. Not safe to share between threads."""

    def __init__(self, service: Name) -> None:
        """Nothing is sent or asked before the first step."""
        self._service, self._handle = service, c_void_p()
        self.is_complete = False

    def step(self, token: bytes) -> bytes:
        """Take the service's token, empty at first; returns the next one for it. The KDC may be asked."""
        answer = _Bytes()
        status = _call(
            "gss_init_sec_context",
            None,
            byref(self._handle),
            self._service.handle,
            byref(_KRB5),
            c_uint32(_FLAGS),
            c_uint32(0),
            None,
            byref(_give(token)) if token else None,
            None,
            byref(answer),
            None,
            None,
        )
        self.is_complete = not status & _CONTINUE_NEEDED
        return _take(answer)

    def wrap(self, data: bytes, *, encrypt: bool) -> bytes:
        """Sign the bytes, and encrypt them if asked to."""
        wrapped = _Bytes()
        _call("gss_wrap", self._handle, c_int(encrypt), c_uint32(0), byref(_give(data)), None, byref(wrapped))
        return _take(wrapped)

    def unwrap(self, data: bytes) -> tuple[bytes, bool]:
        """The bytes that the service has signed, and whether it has encrypted them."""
        plain, is_encrypted = _Bytes(), c_int()
        status = _call("gss_unwrap", self._handle, byref(_give(data)), byref(plain), byref(is_encrypted), None)
        unwrapped = _take(plain)
        if status:
            raise KerberosError("the service's data is a replay, or some of it is missing")
        return unwrapped, bool(is_encrypted.value)

    def release(self) -> None:
        """Free it; a second call does nothing."""
        _load().gss_delete_sec_context(byref(c_uint32()), byref(self._handle), None)
        self._service.release()
