"""The log of a table, `client.tables["db.t"].log`, and the batches by which a drain reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from firn.errors import Refused
from firn.protocol.answers.logs import (
    LogCheckOut,
    LogColumnsOut,
    LogOut,
    LogPinOut,
    LogResetOut,
    LogSchemaOut,
    LogSkipOut,
)
from firn.protocol.cdc.rows import ADD, IGNORE
from firn.protocol.connections import Mechanism, Security
from firn.quarantine import TableQuarantine
from firn.transport import Transport

PASSWORD_VARIABLE = "FIRN_KAFKA_PASSWORD"  # noqa: S105 -- the name of a variable
"""The password of the user of a log's connection, for drains and reads outside of optimizers."""


@dataclass(frozen=True, slots=True)
class TableLog:
    """A table's log: a topic of Kafka whose records become changes."""

    transport: Transport
    path: str

    def show(self) -> LogOut:
        """Up to where the table has the records, and what a drain reads next. The server asks Kafka."""
        return LogOut.read(self.transport.get(self.path))

    def pin(self) -> LogPinOut:
        """Both stores of the table at one moment, and the log's position in them."""
        return LogPinOut.read(self.transport.get(f"{self.path}/pin"))

    def check(self) -> LogCheckOut:
        """Findings about topic and records, and the newest records as changes of the table."""
        return LogCheckOut.read(self.transport.get(f"{self.path}/check"))

    def schema(self, number: int) -> LogSchemaOut:
        """The Avro schema of this id, which the server has from the connection's registry. NotFound."""
        return LogSchemaOut.read(self.transport.get(f"{self.path}/schemas/{number}"))

    def add_columns(self, types: Mapping[str, str], *, stream_lease: str | None = None) -> LogColumnsOut:
        """Add columns that records of the log have, by type: what a drain does with `firn.log.schema=add`.

        The answer says which the table has now, and why it gets no others. Invalid with another `firn.log.schema`.
        """
        columns = [{"name": name, "type": type_} for name, type_ in types.items()]
        body = {"columns": columns, "stream_lease": stream_lease}
        return LogColumnsOut.read(self.transport.change("POST", f"{self.path}/columns", body))

    @property
    def quarantine(self) -> TableQuarantine:
        """The records that are no changes of the table."""
        return TableQuarantine(self.transport, f"{self.path}/quarantine")

    def skip(self, *, dry_run: bool = False) -> LogSkipOut:
        """Go on after records that the topic no longer has. They stay missing in the table, and a running drain ends.

        Refused if drains can go on without this.
        """
        return LogSkipOut.read(self.transport.change("POST", f"{self.path}/skip", None, {"dry_run": dry_run}))

    def reset(self, to: str, *, start: str | None = None, dry_run: bool = False) -> LogResetOut:
        """Set the position to `earliest`, `latest`, a time with its zone, or offsets as `orders:0:123,1:456`.

        Records between stay missing in the table, or come again; the answer counts them. A running drain ends. With
        `start`, the position that a dry run has shown, the server refuses the reset if the table is elsewhere by then.
        """
        body = {"to": to, "start": start}
        return LogResetOut.read(self.transport.change("POST", f"{self.path}/reset", body, {"dry_run": dry_run}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """A record that empties the table; `source` names the source's table, if only the rows of that one are meant."""

    partition: int
    offset: int
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBatch:
    """The offsets of one commit of a drain, by partition: from `start` up to, but without, `end`."""

    topic: str
    start: Mapping[int, int]
    end: Mapping[int, int]
    truncate: Truncate | None = None
    """The one record of the batch, if it is a truncate that empties the table."""

    @property
    def most_records(self) -> int:
        """The number of offsets; some have no records."""
        return sum(self.end[number] - self.start[number] for number in self.end)

    @property
    def position(self) -> str:
        """The position that the commit reaches."""
        return f"{self.topic}:{','.join(f'{number}:{self.end[number]}' for number in sorted(self.end))}"


def plan_batch(log: LogOut) -> LogBatch | None:
    """The next batch, of at most `max_batch_rows` offsets; None if there is nothing to commit.

    Partitions get equal shares, and what some do not need goes to the others. A log that starts at its latest records
    has a first commit without any: otherwise records that come before the next look would be skipped.
    """
    waiting = {number: log.end[number] - log.start[number] for number in log.end}
    counts = _share(waiting, log.max_batch_rows)
    if not any(counts.values()) and not (log.starts_latest and log.position is None):
        return None
    end = {number: log.start[number] + count for number, count in counts.items()}
    return LogBatch(topic=log.topic, start=log.start, end=end)


def _share(waiting: Mapping[int, int], most: int) -> dict[int, int]:
    shares, left = {}, most
    ordered = sorted(waiting, key=lambda number: (waiting[number], number))
    for done, number in enumerate(ordered):
        shares[number] = min(waiting[number], -(-left // (len(ordered) - done)))
        left -= shares[number]
    return shares


def cut_at_truncate(batch: LogBatch, truncate: Truncate) -> LogBatch:
    """The part of a batch before its first truncate or, if that comes first, the truncate alone.

    See docs/protocols.md, rule 6.16.
    """
    number, offset = truncate.partition, truncate.offset
    if batch.start[number] < offset:
        return replace(batch, end={**batch.end, number: offset})
    return replace(batch, end={**batch.end, number: offset + 1}, truncate=truncate)


def ignore_new_columns(log: LogOut) -> LogOut:
    """The log as readers take it: they leave out values whose columns a drain has yet to add."""
    return log.model_copy(update={"schema_changes": IGNORE}) if log.schema_changes == ADD else log


def plan_tail(log: LogOut, position: str | None) -> LogBatch:
    """The records after a position of the log's topic, up to the end that `log` has seen, and no further.

    A drain may have brought the position beyond that end; then the partition has no tail.
    """
    start = {**log.start}
    if position is not None:
        pairs = (pair.split(":") for pair in position.rpartition(f"{log.topic}:")[2].split(","))
        start |= {int(number): int(offset) for number, offset in pairs}
    return LogBatch(
        topic=log.topic, start=start, end={number: max(log.end.get(number, 0), at) for number, at in start.items()}
    )


def require_drains(log: LogOut, table: str) -> None:
    """Raise Refused if drains of the log have stopped: nobody knows then which of its records the table will have."""
    if log.problem is not None:
        raise Refused(f"{table}: {log.problem.message}", hint=suggest_remedy(log, table))


def suggest_remedy(log: LogOut, table: str) -> str:
    """What a user can do about the problem of a log."""
    return f"`firn log skip {table}` goes on from {log.skip_to}; `firn log reset {table} --to …` sets another position"


def require_short(tail: LogBatch, log: LogOut, table: str) -> None:
    """Raise Refused if a read with the log would read more records than `firn.log.max-tail-rows`."""
    if tail.most_records > log.max_tail_rows:
        raise Refused(
            f"{table}: up to {tail.most_records:,} records of the log wait, more than firn.log.max-tail-rows",
            hint=f"run `firn drain {table}` first",
        )


class Cluster(Protocol):
    """How to reach a cluster: a log, a connection of the server, or plain brokers."""

    @property
    def brokers(self) -> Sequence[str]: ...
    @property
    def security(self) -> Security | str: ...
    @property
    def mechanism(self) -> Mechanism | str | None: ...
    @property
    def username(self) -> str | None: ...
    @property
    def ca(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class PlainBrokers:
    """Brokers without users and without encryption."""

    brokers: Sequence[str]
    security: Security = Security.PLAINTEXT
    mechanism: Mechanism | None = None
    username: str | None = None
    ca: str | None = None


def build_kafka_options(log: Cluster, password: str | None) -> dict[str, str]:
    """Options of Spark's connector for the log's cluster.

    `password` is that of the connection's user; the server does not show it.
    """
    options = {
        "kafka.bootstrap.servers": ",".join(log.brokers),
        "kafka.security.protocol": str(log.security).upper().replace("-", "_"),
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": "true",
    }
    if log.mechanism is not None:
        module = "plain.PlainLoginModule" if str(log.mechanism) == "PLAIN" else "scram.ScramLoginModule"
        login = f"username={_quote(log.username or '')} password={_quote(password or '')}"
        options["kafka.sasl.mechanism"] = str(log.mechanism)
        options["kafka.sasl.jaas.config"] = f"org.apache.kafka.common.security.{module} required {login};"
    if log.ca is not None:
        options |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.certificates": log.ca}
    return options


def _quote(text: str) -> str:
    """A value of a JAAS configuration."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
