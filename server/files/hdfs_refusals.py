"""What HDFS refuses: the hop at which a call has failed, and what an operator can do about it."""

from __future__ import annotations

import errno

from catalog.ports.hadoop import Hop
from firn.hdfs.errors import NameNodeBusy

ADVICE = {
    Hop.CONFIGURATION: "set HADOOP_CONF_DIR or hadoop.conf_dir to the directory of the cluster's core-site.xml and "
    "hdfs-site.xml",
    Hop.KERBEROS: "see the table of messages about Kerberos in docs/clusters.md",
    Hop.NAME_NODE: "check that a name node is active (hdfs haadmin -getAllServiceState), its address, and firewalls",
    Hop.SAFE_MODE: "wait until the name node has left safe mode, or run hdfs dfsadmin -safemode leave",
    Hop.PERMISSION: "give this user the permission (hdfs dfs -chown, -chmod or -setfacl), or use another user or "
    "directory",
    Hop.QUOTA: "raise the quota (hdfs dfsadmin -setQuota, -setSpaceQuota), or delete files",
    Hop.ENCRYPTION_ZONE: "set hadoop.security.key.provider.path in core-site.xml to the cluster's KMS (kms://…), or "
    "use another directory",
    Hop.ERASURE_CODING: "set a Reed-Solomon policy or none (hdfs ec -setPolicy, hdfs ec -unsetPolicy), or use another "
    "directory",
    Hop.MOUNT_POINT: "keep the directory and the catalog's warehouse below one mount point of one name service",
}
_KERBEROS_HINTS = {
    "clock skew": "correct the clocks: those of this machine and of the KDC differ by more than five minutes",
    "gss initiate failed": "check that the clocks of this machine, of the KDC and of the name nodes differ by less "
    "than five minutes, and that the name nodes' keytab has their newest key; the name node's log has the reason",
}
"""What Kerberos and a name node's SASL say about a ticket."""
_NAME_ADVICE = "Choose a name without a colon: HDFS allows none in any part of a path."
_INVALID_NAME = "invalid path name"
_NO_ANSWER = ("connection refused", "no route to host", "rpc listener disconnected", "network is unreachable")


def find_hop(error: OSError | ValueError) -> Hop:
    """The hop at which a call has failed; `WRITE` for other refusals of the file system."""
    words = read_words(error).lower()
    if "encryption zone" in words or "kms" in words:
        return Hop.ENCRYPTION_ZONE
    if "erasure" in words:
        return Hop.ERASURE_CODING
    if any(name in words for name in ("gssapi", "sasl", "kerberos")):
        return Hop.KERBEROS
    return _find_by_words(words) if isinstance(error, ValueError) else _find_by_kind(error, words)


def find_advice(error: OSError | ValueError) -> str | None:
    """What to do about a refusal, as a sentence; None if nobody can tell."""
    if _INVALID_NAME in read_words(error).lower():
        return _NAME_ADVICE
    advice = choose_hint(error)
    return None if advice is None else f"{advice[0].upper()}{advice[1:]}."


def choose_hint(error: OSError | ValueError) -> str | None:
    """What to do about a refusal, by its words or by its hop; None if nobody can tell."""
    words = read_words(error).lower()
    by_words = next((hint for text, hint in _KERBEROS_HINTS.items() if text in words), None)
    return by_words or ADVICE.get(find_hop(error))


def read_words(error: BaseException) -> str:
    """The words of the name node, the client or the operating system."""
    strerror = error.strerror if isinstance(error, OSError) else None
    return strerror or str(error) or type(error).__name__


def _find_by_kind(error: OSError, words: str) -> Hop:
    if isinstance(error, PermissionError):
        return Hop.PERMISSION
    if isinstance(error, NameNodeBusy):
        return Hop.SAFE_MODE if "safe mode" in words else Hop.NAME_NODE
    if error.errno == errno.EDQUOT:
        return Hop.QUOTA
    if isinstance(error, TimeoutError | ConnectionError) or any(text in words for text in _NO_ANSWER):
        return Hop.NAME_NODE
    return Hop.WRITE


def _find_by_words(words: str) -> Hop:
    """The hop of a refusal that no other try can mend."""
    if any(text in words for text in ("namenode hosts", "no host for name service", "mount point of")):
        return Hop.CONFIGURATION
    if "rename across" in words:
        return Hop.MOUNT_POINT
    return Hop.WRITE
