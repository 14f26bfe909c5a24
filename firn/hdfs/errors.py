"""What a name node or the client refuses, as errors of the operating system with the name node's own words.

The client raises RuntimeError with a Java class and a stack trace for nearly everything, and a panic of Rust, which is
no Exception, for some misuse.
"""

from __future__ import annotations

import errno
import re

_RPC = re.compile(r'(?:Fatal)?RPCError\("(?P<kind>[\w.$]+)", "(?P<words>.*)"\)\Z', re.DOTALL)
_OTHER = re.compile(r'(?P<kind>\w+)\((?:"(?P<words>.*)"|(?P<bare>.*))\)\Z', re.DOTALL)
_KERBEROS = re.compile(r'GSSAPIError\(GssMajorCodes \{.*\}, \d+, "[^:]*: *(?P<words>.*)"\)\Z', re.DOTALL)
"""The status of GSSAPI, then what Kerberos says about it."""
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_BUSY = frozenset({"StandbyException", "ObserverRetryOnActiveException", "SafeModeException", "RetriableException"})
_DENIED = frozenset({"AccessControlException", "AuthorizationException"})
_WRONG = frozenset({"InvalidPathException", "InvalidArgument", "InvalidPath", "UrlParseError", "XmlParseError"})
"""What another try cannot mend: a name that HDFS refuses, an unknown name service, a broken file of the cluster."""
_NUMBERS = {
    "FileAlreadyExistsException": errno.EEXIST,
    "FileNotFoundException": errno.ENOENT,
    "ParentNotDirectoryException": errno.ENOTDIR,
    "PathIsNotEmptyDirectoryException": errno.ENOTEMPTY,
    "NSQuotaExceededException": errno.EDQUOT,
    "DSQuotaExceededException": errno.EDQUOT,
    "QuotaByStorageTypeExceededException": errno.EDQUOT,
    "QuotaExceededException": errno.EDQUOT,
}
_DISCONNECTED = "RPC listener disconnected"
_MAY_BE_SECURE = (
    ": the name node has closed the connection. If it demands Kerberos, core-site.xml in HADOOP_CONF_DIR must say "
    "hadoop.security.authentication=kerberos"
)
_TOKEN = "InvalidToken"  # noqa: S105 -- a kind of refusal
NO_DELEGATION = (
    "the HDFS tokens of this application have ended. Start another optimizer; if its launch has a principal and a "
    "keytab, Spark gets new tokens in time (docs/clusters.md)"
)
_NO_FILE = "Path is not a file"


class NameNodeBusy(OSError):
    """A name node that refuses for a while: it is a standby, or in safe mode. The operation has not happened."""


class LastBlockUnreported(NameNodeBusy):
    """A file whose last block no data node has reported to the name node, so it cannot be read to its end yet."""

    def __init__(self, length: int, listed: int) -> None:
        super().__init__(
            errno.EAGAIN,
            f"the file has {length:,} bytes, but data nodes have reported only {listed:,} of them to the name node. "
            "Either somebody is writing it, or they report its last block late",
        )


class AclsDisabled(OSError):
    """The name node has ACLs turned off. The operation has not happened."""


def translate(error: BaseException) -> OSError | ValueError | None:
    """The same refusal as an OSError, or as a ValueError where another try cannot help; None for other errors."""
    if isinstance(error, NameNodeBusy):
        return error
    if isinstance(error, FileNotFoundError):
        words = _first_line(str(error))
        return IsADirectoryError(errno.EISDIR, words) if words.startswith(_NO_FILE) else FileNotFoundError(words)
    if isinstance(error, FileExistsError):
        return FileExistsError(_first_line(str(error)))
    if isinstance(error, OSError):
        words = _first_line(error.strerror or str(error))
        return OSError(None, f"{words}{_MAY_BE_SECURE}" if words == _DISCONNECTED else words)
    if isinstance(error, RuntimeError):
        return _translate_words(str(error))
    if type(error).__name__ == "PanicException":
        return OSError(None, f"the HDFS client failed: {_first_line(str(error))}")
    return None


def _translate_words(text: str) -> OSError | ValueError:
    if (match := _RPC.match(text)) is None:
        return _translate_own(text)
    kind = re.split(r"[.$]", match["kind"])[-1]
    words = _first_line(_unescape(match["words"]))
    if kind in _BUSY:
        return NameNodeBusy(errno.EAGAIN, words)
    if kind in _DENIED:
        return PermissionError(errno.EACCES, words)
    if kind in _WRONG:
        return ValueError(words)
    if kind == "AclException" and "disabled" in words:
        return AclsDisabled(errno.EOPNOTSUPP, words)
    if kind == _TOKEN:
        return OSError(None, f"{kind}: {words}; {NO_DELEGATION}")
    number = _NUMBERS.get(kind)
    return OSError(None, f"{kind}: {words}") if number is None else OSError(number, words)


def _translate_own(text: str) -> OSError | ValueError:
    """An error that the client makes itself."""
    match = _KERBEROS.match(text)
    if match is not None:
        return OSError(None, f"no Kerberos ticket for HDFS: {_first_line(_unescape(match['words']))}")
    match = _OTHER.match(text)
    if match is None:
        return OSError(None, _first_line(text))
    words = _first_line(_unescape(match["words"] or match["bare"] or ""))
    if match["kind"] not in _WRONG:
        return OSError(None, f"{match['kind']}: {words}")
    if words == "No NameNode hosts found":
        words += ": the name service is in no core-site.xml or hdfs-site.xml that HADOOP_CONF_DIR names"
    return ValueError(words)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda match: _CHARACTERS.get(match[1], match[1]), text)


def _first_line(text: str) -> str:
    """What stands before the Java stack trace; a message of several lines becomes one."""
    return " ".join(text.partition("\n\tat ")[0].split())
