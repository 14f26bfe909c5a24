"""`firn.log.producer`: writes changes to the topic of a table's log, as its format wants them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from firn.client import Client
from firn.errors import FirnError, Invalid, Refused, Unavailable
from firn.log_tail import HAS_CLIENT, build_connection_options
from firn.log_values import UnfitValueError, encode_object
from firn.logs import PASSWORD_VARIABLE
from firn.protocol.answers.logs import LogOut, LogPinOut

if HAS_CLIENT:
    import confluent_kafka as kafka

FIRN_JSON, UPSERT_JSON = "firn-json", "upsert-json"
SECONDS = 60.0
"""How long a call waits for Kafka."""
_OWN_SETTINGS = ("bootstrap.servers", "enable.idempotence", "partitioner", "transactional.id", "security.protocol")
_PASSES = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRules:
    """What the records of a table must have."""

    table: str
    format: str
    types: Mapping[str, str]
    """The columns in their order, with their types."""
    primary_key: Sequence[str]
    needed: Sequence[str]
    """The columns that no upsert may leave null."""
    needed_by_deletes: Sequence[str]
    no_deletes: str | None
    """Why the log takes no deletes; None if it does."""

    def encode_upsert(self, row: Mapping[str, Any]) -> tuple[str, str]:
        """Key and value of a record that sets all columns: those that the row lacks become null."""
        self._check(row, self.needed)
        return self._encode(self.primary_key, row), self._encode(list(self.types), row)

    def encode_delete(self, row: Mapping[str, Any]) -> tuple[str, str | None]:
        """Key and value of a record that deletes the row of a key."""
        if self.no_deletes is not None:
            raise Refused(f"the log of {self.table} takes no deletes: {self.no_deletes}")
        self._check(row, self.needed_by_deletes)
        key = self._encode(self.primary_key, row)
        if self.format == UPSERT_JSON:
            return key, None
        named = self._encode(list(self.needed_by_deletes), row)
        return key, f'{named[:-1]},"_op":"D"}}'

    def _check(self, row: Mapping[str, Any], needed: Sequence[str]) -> None:
        unknown = [name for name in row if name not in self.types]
        if unknown:
            raise Invalid(f"{self.table} has no column {unknown[0]}")
        missing = [name for name in needed if row.get(name) is None]
        if missing:
            raise Invalid(f"column {missing[0]} of {self.table} must not be null")

    def _encode(self, columns: Sequence[str], row: Mapping[str, Any]) -> str:
        try:
            return encode_object((name, self.types[name], row.get(name)) for name in columns)
        except UnfitValueError as error:
            raise Invalid(f"{self.table}: {error}") from None


@dataclass
class LogProducer:
    """Sends the changes of one table. Safe to share between threads, except for transactions.

    As a context manager it waits at the end until Kafka has all records.
    """

    rules: RecordRules
    topic: str
    kafka: Any
    """The `confluent_kafka.Producer`, for what this class does not do."""
    is_transactional: bool
    _failures: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if kind is None and not self.is_transactional:
            self.flush()

    def upsert(self, row: Mapping[str, Any]) -> None:
        """Send a whole row: it replaces the row of its key. Columns that are left out become null."""
        self._send(*self.rules.encode_upsert(row))

    def delete(self, row: Mapping[str, Any]) -> None:
        """Send the delete of a key; `row` needs the key, and the sequence field if the table has one."""
        self._send(*self.rules.encode_delete(row))

    def flush(self) -> None:
        """Wait until Kafka has all records; Unavailable if it does not answer, Refused if it takes one of them not."""
        left = self.kafka.flush(SECONDS)
        failures, self._failures[:] = list(self._failures), []
        if failures:
            raise Refused(f"Kafka has not taken {len(failures):,} records of {self.rules.table}: {failures[0]}")
        if left:
            raise Unavailable(f"Kafka has not confirmed {left:,} records of {self.rules.table} within {SECONDS:g} s")

    @contextmanager
    def transaction(self, consumer: Any = None) -> Iterator[Self]:
        """Send all records of the block, or none if it raises; drains read them after its end.

        With `consumer`, a `confluent_kafka.Consumer` that has read the records' source, the transaction also commits
        its offsets: a program that restarts goes on behind the records of its last transaction.
        """
        if not self.is_transactional:
            raise Invalid("the producer has no transactions", hint="open it with transactional_id=…")
        self._call(self.kafka.begin_transaction)
        try:
            yield self
            self.flush()
            if consumer is not None:
                offsets = consumer.position(consumer.assignment())
                group = consumer.consumer_group_metadata()
                self._call(self.kafka.send_offsets_to_transaction, offsets, group, SECONDS)
            self._call(self.kafka.commit_transaction, SECONDS)
        except BaseException:
            with suppress(kafka.KafkaException, FirnError):  # after a fatal error there is nothing to abort
                self._call(self.kafka.abort_transaction, SECONDS)
            self._failures.clear()
            raise

    def _send(self, key: str, value: str | None) -> None:
        if self.is_transactional and self._failures:
            self.flush()  # raises: the transaction cannot be committed any more
        give_up = time.monotonic() + SECONDS
        while True:
            try:
                self.kafka.produce(self.topic, key=key, value=value, on_delivery=self._note)
            except BufferError:  # the client's queue is full
                if time.monotonic() > give_up:
                    raise Unavailable(f"Kafka takes no records of {self.rules.table}") from None
                self.kafka.poll(_PASSES)
            except kafka.KafkaException as error:
                raise _translate(error) from error
            else:
                self.kafka.poll(0)
                return

    def _note(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failures.append(error.str())

    def _call(self, function: Any, *arguments: Any) -> None:
        """Call Kafka again while it says that this is safe. A repeated commit or abort does nothing twice."""
        give_up = time.monotonic() + SECONDS
        while True:
            try:
                function(*arguments)
            except kafka.KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > give_up:
                    raise _translate(error) from error
            else:
                return


def producer(
    client: Client,
    table: str,
    *,
    transactional_id: str | None = None,
    password: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> LogProducer:
    """Open a producer of changes for a table with a log of the format `firn-json` or `upsert-json`.

    With `transactional_id`, records are sent in transactions, and an older program with the same id is fenced. Give
    each copy of a program that runs at the same time an id of its own, and the same one after each restart.
    `password` is that of the user of the log's connection, by default $FIRN_KAFKA_PASSWORD. `settings` are further ones
    of librdkafka, such as `linger.ms`. Raises NotFound for a table without a log, and Refused for another format.
    """
    if not HAS_CLIENT:
        raise FirnError("a producer needs confluent-kafka: pip install 'firn[kafka]'")
    own = sorted(set(settings or ()) & {*_OWN_SETTINGS})
    if own:
        raise Invalid(f"{own[0]} is set by Firn", hint="leave it out of settings")
    log, rules = _load_rules(client, table)
    options = {
        **build_connection_options(log, os.environ.get(PASSWORD_VARIABLE) if password is None else password),
        "client.id": "firn-producer",
        **(settings or {}),
        "enable.idempotence": True,
        "partitioner": "murmur2_random",  # as Java's clients, so that all producers agree on the partition of a key
        **({} if transactional_id is None else {"transactional.id": transactional_id}),
    }
    try:
        opened = kafka.Producer(options)
    except kafka.KafkaException as error:
        raise Invalid(f"the client of Kafka refuses the settings: {error.args[0].str()}") from error
    producer = LogProducer(rules, log.topic, opened, is_transactional=transactional_id is not None)
    if transactional_id is not None:
        producer._call(opened.init_transactions, SECONDS)  # noqa: SLF001 -- its own class
    return producer


def _load_rules(client: Client, table: str) -> tuple[LogOut, RecordRules]:
    handle = client.tables[table]
    log = handle.log.show()
    if log.format not in (FIRN_JSON, UPSERT_JSON):
        raise Refused(
            f"Firn writes no records of the format {log.format}",
            hint="write Avro with Confluent's serializers; envelopes come from databases",
        )
    pin, columns = handle.log.pin(), handle.show().columns
    sequence = [] if pin.sequence_field is None else [pin.sequence_field]
    required = [column.name for column in columns if column.required]
    return log, RecordRules(
        table=table,
        format=log.format,
        types={column.name: column.type for column in columns},
        primary_key=pin.primary_key,
        needed=list(dict.fromkeys([*pin.primary_key, *sequence, *required])),
        needed_by_deletes=pin.delete_columns,
        no_deletes=_explain_no_deletes(log, pin),
    )


def _explain_no_deletes(log: LogOut, pin: LogPinOut) -> str | None:
    if pin.insert_only:
        return "the table is insert-only"
    if log.deletes != "apply":
        return f"firn.log.deletes is {log.deletes}"
    beside_key = [name for name in pin.delete_columns if name not in pin.primary_key]
    if log.format == UPSERT_JSON and beside_key:
        return f"they need a value in column {beside_key[0]}, and a record without a value has none"
    return None


def _translate(error: Any) -> FirnError:
    cause = error.args[0]
    if cause.code() == kafka.KafkaError.MSG_SIZE_TOO_LARGE:
        return Refused(
            "the record is larger than Kafka's client sends",
            hint="settings={'message.max.bytes': …}; the topic's max.message.bytes bounds it, too",
        )
    if cause.fatal():
        return Refused(f"the producer has ended: {cause.str()}", hint="open a new one")
    return Unavailable(f"Kafka did not do it: {cause.str()}")
