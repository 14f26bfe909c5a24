"""Why an embedded part is not running, in words for whoever asked for it.

EmbeddedError            the message says what, where and what to do; nothing was left behind
├── JavaUnsuitable       there is no Java, or one that Spark and the metastore cannot run on
├── ServerMissing        the distribution firn-server, which has the server and the optimizer, is not installed
├── PySparkMissing       PySpark's jars, which everything here is made of, are not installed
├── JarsUnavailable      a jar could not be fetched from Maven Central
├── DataDirUnusable      the directory cannot be made or written
├── PortTaken            something else listens there
├── AlreadyRunning       another process of Firn holds this data directory
└── StartFailed          the child was started, and ended or kept silent; its log says why
"""

from __future__ import annotations


class EmbeddedError(Exception):
    """A part that Firn was to start on this machine is not running."""


class JavaUnsuitable(EmbeddedError):
    """There is no Java, or one that Spark and the metastore cannot run on."""


class ServerMissing(EmbeddedError):
    """The distribution `firn-server` is not installed."""


class PySparkMissing(EmbeddedError):
    """PySpark's jars, which everything here is made of, are not installed."""


class JarsUnavailable(EmbeddedError):
    """A jar could not be fetched from Maven Central."""


class DataDirUnusable(EmbeddedError):
    """The directory cannot be made or written."""


class PortTaken(EmbeddedError):
    """Something else listens on the port."""


class AlreadyRunning(EmbeddedError):
    """Another process of Firn holds this data directory."""


class StartFailed(EmbeddedError):
    """The child was started, and ended or kept silent."""
