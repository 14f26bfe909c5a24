"""Hive's metastore service in a JVM, built so that it listens only on 127.0.0.1.

The main program of Hive 2.3 binds to every address and has no setting for it. So the JVM starts with py4j's gateway as
its main program. Through the gateway, Python builds the same service from Hive's own classes around its own socket, and
then closes the gateway. From then on the JVM runs alone: no call of the metastore passes through Python.

The gateway listens on 127.0.0.1 too, for the seconds of the start, and demands a token that only this process knows.
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
from firn.embedded.ports import LOOPBACK, make_port_taken_error
from firn.embedded.process import read_last_lines

# The arguments after `java -cp …`. The program prints the gateway's port and token to standard output, a line each, and
# nothing else.
MAIN_CLASS = ("py4j.GatewayServer", "--enable-auth", "0")

# Hive's defaults are 200 and 1000; idle workers of a small machine are only stacks. A connection holds one worker.
MIN_WORKERS = 8
MAX_WORKERS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The address and token of the gateway that controls the JVM while it starts."""

    port: int
    token: str = field(repr=False)


def read_gateway(stdout: IO[bytes], *, give_up: float) -> Gateway | None:
    """Read the gateway from the JVM's standard output; None if it ends, or is silent until `give_up` (monotonic)."""
    printed = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while printed.count(b"\n") < 2:
            ready = selector.select(max(0.0, give_up - time.monotonic()))
            chunk = os.read(stdout.fileno(), 4096) if ready else b""
            if not chunk:
                return None
            printed += chunk
    port, token = printed.split()
    return Gateway(port=int(port), token=token.decode())


def serve(gateway: Gateway, port: int, *, seconds: float, log: Path, start: Callable[[Any, int], None]) -> None:
    """Start the metastore in the JVM on `port` by calling `start`, close the gateway, and return when it listens.

    Raises PortTaken if another program listens there, and StartFailed if Hive refuses (with Hive's message), or if the
    JVM ends or does not answer for `seconds`.
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
        if "java.net.BindException" in _list_causes(error):
            raise make_port_taken_error(port, owner="The Hive Metastore") from error
        reason = f"The Hive Metastore did not start: {error.java_exception}"
        raise StartFailed(f"{reason}\nThe end of {log}:\n{read_last_lines(log)}") from error
    except Py4JNetworkError as error:
        reason = f"The Hive Metastore ended or did not answer for {seconds:.0f} s while starting."
        raise StartFailed(f"{reason}\nThe end of {log}:\n{read_last_lines(log)}") from error
    finally:
        connection.shutdown()


def start_service(jvm: Any, port: int, *, locks: bool = False) -> None:
    """Do what HiveMetaStore.startMetaStore does without SASL, TLS and compaction, but bind to loopback.

    With `locks`, create the tables in which Hive keeps transactions and locks.
    """
    hive, thrift = jvm.org.apache.hadoop.hive, jvm.org.apache.thrift
    # The socket comes first, so that no other program takes the port while the database opens. Early clients wait.
    socket = thrift.transport.TServerSocket(jvm.java.net.InetSocketAddress(LOOPBACK, port))
    conf = hive.conf.HiveConf()
    bare = getattr(hive.metastore, "HiveMetaStore$HMSHandler")("Firn's metastore", conf, False)  # opens the database
    handler = hive.metastore.HiveMetaStore.newRetryingHMSHandler(bare, conf)
    if locks:
        hive.metastore.txn.TxnDbUtil.prepDb(conf)  # usually Hive's schema tool creates these tables
    serve_handler(jvm, socket, handler, getattr(hive.thrift, "TUGIContainingTransport$Factory")())


def serve_handler(jvm: Any, socket: Any, handler: Any, transports: Any, processor: Any = None) -> None:
    """Serve a Hive handler's answers on a socket as long as the JVM runs; `processor` replaces Hive's without SASL."""
    hive, thrift, beans = jvm.org.apache.hadoop.hive, jvm.org.apache.thrift, jvm.java.beans.EventHandler
    arguments = getattr(thrift.server, "TThreadPoolServer$Args")(hive.metastore.TServerSocketKeepAlive(socket))
    arguments.processor(hive.metastore.TUGIBasedProcessor(handler) if processor is None else processor)
    arguments.transportFactory(transports)
    arguments.minWorkerThreads(MIN_WORKERS)
    arguments.maxWorkerThreads(MAX_WORKERS)
    server = thrift.server.TThreadPoolServer(arguments)

    # A worker opens a database session for its client. Hive's clients end it with the call `shutdown` before they
    # disconnect. This handler makes the call for clients that only disconnect.
    event_handler = _load_class(jvm, "org.apache.thrift.server.TServerEventHandler")
    server.setServerEventHandler(beans.create(event_handler, handler, "shutdown", None, "deleteContext"))
    run = beans.create(_load_class(jvm, "java.lang.Runnable"), server, "serve")
    jvm.java.lang.Thread(run, "metastore").start()  # not a daemon, so it keeps the JVM running without the gateway


def _list_causes(error: Py4JJavaError) -> list[str]:
    """List the classes of a Java exception and of its causes, outermost first."""
    java, names = error.java_exception, []
    while java is not None:
        names.append(java.getClass().getName())
        java = java.getCause()
    return names


def _load_class(jvm: Any, name: str) -> Any:
    return jvm.java.lang.Class.forName(name)
