"""Streams that optimizers run: `client.streams`. So far the drains that bring topics of Kafka into keyed tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from firn.errors import NotFound
from firn.protocol.answers.jobs import LogLine
from firn.protocol.answers.streams import StreamOut
from firn.transport import Transport


@dataclass(frozen=True, slots=True)
class Streams:
    """The streams of the server."""

    transport: Transport

    def list(
        self,
        *,
        catalog: str | None = None,
        table: str | None = None,
        status: Sequence[str] = (),
        search: str | None = None,
        limit: int | None = None,
    ) -> Iterator[StreamOut]:
        """By catalog and table, page by page. `table` is NAMESPACE.TABLE."""
        params = {"catalog": catalog, "table": table, "status": status or None, "search": search}
        return (StreamOut.read(document) for document in self.transport.items("/streams", params, limit=limit))

    def get(self, stream_id: UUID | str) -> StreamOut:
        """One stream."""
        return StreamOut.read(self.transport.get(f"/streams/{stream_id}"))

    def find(self, catalog: str, table: str) -> StreamOut:
        """The stream of a table; NotFound for a table without one."""
        for stream in self.list(catalog=catalog, table=table):
            return stream
        raise NotFound(f"{catalog}.{table} has no stream", hint="keyed tables with a log have one: see firn.log.topic")

    def logs(self, stream_id: UUID | str) -> Sequence[LogLine]:
        """The newest lines of its log, oldest first."""
        return [LogLine.read(document) for document in self.transport.items(f"/streams/{stream_id}/logs")]

    def pause(self, stream_id: UUID | str) -> StreamOut:
        """Pause it. After the answer it commits nothing more, until somebody resumes it."""
        return self._act(stream_id, "pause")

    def resume(self, stream_id: UUID | str) -> StreamOut:
        """Let a paused stream go on from the table's position; refused for one that has stopped."""
        return self._act(stream_id, "resume")

    def restart(self, stream_id: UUID | str) -> StreamOut:
        """Begin a new attempt at once, also of a stream that has stopped; refused for a paused one."""
        return self._act(stream_id, "restart")

    def _act(self, stream_id: UUID | str, verb: str) -> StreamOut:
        return StreamOut.read(self.transport.change("POST", f"/streams/{stream_id}/{verb}"))
