"""Hive's metastore service, put together in a JVM so that it listens on 127.0.0.1 and nowhere else.

The main program of Hive 2.3 binds to every address and has no setting for it.  So the JVM is started with py4j's
gateway as its main program; through it the same service is built from Hive's own classes around a socket of ours, and
then the gateway is closed.  From there on the JVM runs alone: no call of the metastore passes through Python.

The gateway listens on 127.0.0.1 too, for the seconds of the start, and asks for a token that only we were told.
"""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JJavaError, Py4JNetworkError

from firn.embedded.errors import StartFailed
from firn.embedded.ports import LOOPBACK, taken
from firn.embedded.process import last_lines

# What goes behind `java -cp …`. It prints the gateway's port and token, a line each, and nothing else to its
# standard output.
MAIN_CLASS = ("py4j.GatewayServer", "--enable-auth", "0")

# Hive's defaults are 200 and 1000; idle workers of a small machine are only stacks. A connection holds one worker.
MIN_WORKERS = 8
MAX_WORKERS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """Where the JVM takes orders while it starts."""

    port: int
    token: str = field(repr=False)


def announced(stdout: IO[bytes], *, give_up: float) -> Gateway | None:
    """Read the gateway from the JVM's standard output; None if it ended or kept silent until `give_up` (monotonic)."""
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while said.count(b"\n") < 2:
            ready = selector.select(max(0.0, give_up - time.monotonic()))
            heard = os.read(stdout.fileno(), 4096) if ready else b""
            if not heard:
                return None
            said += heard
    port, token = said.split()
    return Gateway(port=int(port), token=token.decode())


def serve(gateway: Gateway, port: int, *, seconds: float, log: Path, start: Callable[[Any, int], None]) -> None:
    """Have the JVM serve the metastore on `port` by `start`, and close the gateway; returns when it listens.

    Raises PortTaken if somebody else listens there, StartFailed if Hive refused (the message is Hive's) or the JVM
    ended or was silent for `seconds`.
    """
    connection = JavaGateway(
        gateway_parameters=GatewayParameters(
            address=LOOPBACK,
            port=gateway.port,
            auth_token=gateway.token,
            read_timeout=seconds,
            enable_memory_management=False,  # else Python's garbage collector would write to a closed gateway
        )
    )
    try:
        start(connection.jvm, port)
    except Py4JJavaError as error:
        if "java.net.BindException" in _causes(error):
            raise taken(port, what="The Hive Metastore") from error
        reason = f"The Hive Metastore did not start: {error.java_exception}"
        raise StartFailed(f"{reason}\nThe end of {log}:\n{last_lines(log)}") from error
    except Py4JNetworkError as error:
        reason = f"The Hive Metastore ended, or kept silent for {seconds:.0f} s, while starting."
        raise StartFailed(f"{reason}\nThe end of {log}:\n{last_lines(log)}") from error
    finally:
        connection.shutdown()


def start_service(jvm: Any, port: int, *, locks: bool = False) -> None:
    """What HiveMetaStore.startMetaStore does without SASL, TLS and compaction, except for the address it binds to.

    With `locks` it gets the tables in which Hive keeps transactions and locks.
    """
    hive, thrift = jvm.org.apache.hadoop.hive, jvm.org.apache.thrift
    # First of all, so that nobody takes the port while the database opens. Who connects until then waits.
    socket = thrift.transport.TServerSocket(jvm.java.net.InetSocketAddress(LOOPBACK, port))
    conf = hive.conf.HiveConf()
    bare = getattr(hive.metastore, "HiveMetaStore$HMSHandler")("Firn's metastore", conf, False)  # opens the database
    handler = hive.metastore.HiveMetaStore.newRetryingHMSHandler(bare, conf)
    if locks:
        hive.metastore.txn.TxnDbUtil.prepDb(conf)  # Hive's own schema tool makes them; with the other tables none are
    serve_by(jvm, socket, handler, getattr(hive.thrift, "TUGIContainingTransport$Factory")())


def serve_by(jvm: Any, socket: Any, handler: Any, transports: Any) -> None:
    """Serve what a handler of Hive's answers on a socket, for as long as the JVM lives."""
    hive, thrift, beans = jvm.org.apache.hadoop.hive, jvm.org.apache.thrift, jvm.java.beans.EventHandler
    arguments = getattr(thrift.server, "TThreadPoolServer$Args")(hive.metastore.TServerSocketKeepAlive(socket))
    arguments.processor(hive.metastore.TUGIBasedProcessor(handler))
    arguments.transportFactory(transports)
    arguments.minWorkerThreads(MIN_WORKERS)
    arguments.maxWorkerThreads(MAX_WORKERS)
    server = thrift.server.TThreadPoolServer(arguments)

    # A worker opens a database session for its client. Hive's clients end it with the call `shutdown` before they
    # hang up; for those that only hang up it is called here.
    at_hang_up = _class(jvm, "org.apache.thrift.server.TServerEventHandler")
    server.setServerEventHandler(beans.create(at_hang_up, handler, "shutdown", None, "deleteContext"))
    run = beans.create(_class(jvm, "java.lang.Runnable"), server, "serve")
    jvm.java.lang.Thread(run, "metastore").start()  # no daemon: it keeps the JVM up when the gateway is gone


def _causes(error: Py4JJavaError) -> list[str]:
    """The classes of a Java exception and of its causes, outermost first."""
    java, names = error.java_exception, []
    while java is not None:
        names.append(java.getClass().getName())
        java = java.getCause()
    return names


def _class(jvm: Any, name: str) -> Any:
    return jvm.java.lang.Class.forName(name)
