"""The Avro schemas of a configuration: the server has them from the registry that the connection names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from firn.connections import Connections
from firn.errors import NotFound, Refused
from firn.protocol.cdc.routing import CdcConfig

if TYPE_CHECKING:
    from firn.protocol.avro.decoding import Schemas

MOST_SCHEMAS = 1_000
"""The largest number of schemas that one look at a topic asks for."""
_QUARANTINE_HINT = "let such records go to the quarantine: unknown_schemas, docs/cdc.md"


@dataclass
class CdcSchemas:
    """The schemas of a configuration's registry. It asks for each one once: the schema of an id never changes."""

    config: CdcConfig
    connections: Connections
    _texts: dict[int, list[str]] = field(default_factory=dict)

    def load(self, topic: str, ids: Iterable[int], *, stops: bool = False) -> Schemas:
        """The texts of the schemas that a topic's records name; none for formats in JSON, which have no ids.

        An id that the registry does not have is missing in the answer or, with `stops`, raises Refused. FirnError if
        the server or the registry does not answer, and for a connection without registry.
        """
        wanted = sorted({*ids})
        if len(wanted) > MOST_SCHEMAS:
            raise Refused(
                f"the records of topic {topic} have more than {MOST_SCHEMAS:,} schemas",
                hint="check that all of them are in the wire format of a schema registry: firn cdc plan",
            )
        for number in wanted:
            if number not in self._texts and not self._ask(number) and stops:
                raise Refused(self.explain_unknown(topic, number), hint=f"register it, or {_QUARANTINE_HINT}")
        return {number: self._texts[number] for number in wanted if number in self._texts}

    def explain_unknown(self, topic: str, number: int) -> str:
        """Why the records of a topic stop a run."""
        where = f"the schema registry of connection {self.config.connection}"
        return f"topic {topic} has records of schema {number}, and {where} has no Avro schema of this id"

    def _ask(self, number: int) -> bool:
        """Whether the registry has the schema."""
        connection = self.config.connection or ""
        try:
            self._texts[number] = self.connections.schema(connection, number).texts
        except NotFound:
            self.connections.get(connection)  # raises NotFound if it is the connection that is gone
            return False
        return True
