"""Requests for a plan of change data capture: the fields of a sync file, with patterns in place of regular expressions.

The server would run regular expressions of a request on names that it reads from topics, and some take hours for a name
of a hundred letters. Patterns have a few asterisks at most, so a match takes no time.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from firn.protocol.base import Request

LONGEST_NAME = 300
MOST_TOPIC_PATTERNS, MOST_RULES, MOST_COLUMNS = 20, 50, 500


def _check_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("has control characters or line breaks")
    return text


Text = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(_check_printable)]
_KNOWN_TYPES = "boolean|int|long|float|double|string|binary|date|timestamp|timestamptz"
ColumnType = Annotated[str, Field(pattern=rf"^({_KNOWN_TYPES}|decimal\([1-9]\d?,\d{{1,2}}\))$")]


class CdcRuleRequest(Request):
    """Tables of the source, and the table that takes their rows. The fields are those of docs/cdc.md."""

    include: Text = Field(description="Name of a table of the source; `*` stands for any text, at most two times.")
    exclude: Text | None = Field(default=None, description="Tables that the rule leaves out, in the same form.")
    table: Text = Field(description="NAMESPACE.TABLE; `\\1` is the text of the first asterisk of `include`.")
    primary_key: list[Text] = Field(default=[], max_length=32, description="Key columns; else those of the records.")
    sequence_field: Text | None = Field(default=None, description="Column that orders the changes of a key.")
    source_column: Text | None = Field(default=None, description="Column that takes the name of the source's table.")
    partition_by: list[Text] = Field(default=[], max_length=32, description="Partitions of a new table.")
    partial: bool = Field(default=False, description="Whether changes may leave columns out.")
    columns: dict[Text, ColumnType] = Field(
        default={}, max_length=MOST_COLUMNS, description="Types of columns where the records do not tell them."
    )


class CdcPlanRequest(Request):
    """A configuration of `firn cdc`, with a connection of the server."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$", description="Name for people.")
    format: str = Field(max_length=40, description="Format of the records.")
    connection: Text = Field(description="Connection to Kafka.")
    topics: list[Text] = Field(
        min_length=1, max_length=MOST_TOPIC_PATTERNS, description="Topics; `*` stands for any text, at most once."
    )
    start: Literal["earliest", "latest"] = Field(default="earliest", description="Where new tables begin to read.")
    deletes: Literal["apply", "ignore", "stop"] = Field(default="apply", description="What deletes do.")
    truncates: Literal["stop", "ignore", "empty"] = Field(default="stop", description="What truncates do.")
    schema_: Literal["add", "ignore"] = Field(default="add", alias="schema", description="What new columns do.")
    tables: list[CdcRuleRequest] = Field(min_length=1, max_length=MOST_RULES, description="Rules; the first one wins.")
