"""Errors of embedded parts, for the user who started them.

EmbeddedError            the message says what happened, where, and what to do; no process is left behind
├── JavaUnsuitable       there is no Java, or only one that Spark and the metastore cannot use
├── ServerMissing        the distribution firn-server, which has the server and the optimizer, is not installed
├── PySparkMissing       PySpark's jars, which the embedded parts need, are not installed
├── JarsUnavailable      a jar could not be fetched from Maven Central
├── DataDirUnusable      the directory cannot be created or written
├── PortTaken            another program listens on the port
├── AlreadyRunning       another process of Firn has locked this data directory
└── StartFailed          the child ended or did not answer after its start; its log has the reason
"""

from __future__ import annotations


class EmbeddedError(Exception):
    """A part that Firn was to start on this machine is not running."""


class JavaUnsuitable(EmbeddedError):
    """There is no Java, or only one that Spark and the metastore cannot use."""


class ServerMissing(EmbeddedError):
    """The distribution `firn-server` is not installed."""


class PySparkMissing(EmbeddedError):
    """PySpark's jars, which the embedded parts need, are not installed."""


class JarsUnavailable(EmbeddedError):
    """A jar could not be fetched from Maven Central."""


class DataDirUnusable(EmbeddedError):
    """The directory cannot be created or written."""


class PortTaken(EmbeddedError):
    """Another program listens on the port."""


class AlreadyRunning(EmbeddedError):
    """Another process of Firn has locked this data directory."""


class StartFailed(EmbeddedError):
    """The child ended or did not answer after its start."""
