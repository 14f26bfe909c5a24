"""What a folder of a pipeline defines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from firn.names import split_name
from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.outputs import PLAIN_OUTPUT, Output
from firn.pipelines.plan import Reason
from firn.protocol.names import join_name
from firn.protocol.pipeline_code import TableCode
from firn.protocol.pipeline_outputs import OutputMode, choose_mode
from firn.protocol.pipelines import BY_HAND, Refresh, Trigger
from firn.protocol.validators import Validator


@dataclass(frozen=True)
class Definition:
    """A table and its query, which names its inputs as Firn does: NAMESPACE.TABLE within the pipeline's catalog.

    `columns` are those that the statement lists, empty if it lists none. `partitioned_by` has columns and transforms as
    the statement writes them.
    """

    name: str
    query: exp.Query
    path: str
    line: int
    columns: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    refresh: Refresh = Refresh.AUTO
    partitioned_by: tuple[str, ...] = ()
    trigger: Trigger = BY_HAND
    validators: tuple[Validator, ...] = ()
    output: Output = PLAIN_OUTPUT
    consistent: tuple[str, ...] = ()
    """The tables that move together with this one, which is among them."""
    code: TableCode | None = None
    """The Python that computes it. Without a query in SQL, `query` only names the tables that it reads."""
    declared: Mapping[str, str] = field(default_factory=dict)
    """The columns that Python declares; empty if they are not known before a run."""
    source: str = ""
    """The text of the function, or of the query that reads views in Python."""

    @property
    def is_planned(self) -> bool:
        """Whether its rows are those of a query in SQL alone, before any transform."""
        return self.code is None or self.code.is_sql

    @property
    def mode(self) -> OutputMode:
        """How runs write the table."""
        return choose_mode(self.output.mode, self.key)


@dataclass(frozen=True)
class Pipeline:
    """A folder: its definitions in an order in which each comes after those that it reads.

    `sources` are columns of tables that `firn-pipeline.yml` lists. `deterministic` are functions that the owner vouches
    for. `problems` are the errors of the folder; a definition with an error is not among `definitions`. `warnings` are
    about the folder as a whole. Names without a catalog or namespace belong to `catalog` and `namespace`. `files` are
    the texts of the folder by their paths.
    """

    name: str
    definitions: Mapping[str, Definition]
    sources: Mapping[str, Mapping[str, str]]
    deterministic: tuple[str, ...] = ()
    problems: tuple[InvalidDefinition, ...] = ()
    warnings: tuple[Reason, ...] = ()
    catalog: str | None = None
    namespace: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    def qualify(self, name: str) -> str:
        """A name of a table within the pipeline's catalog. Raises Invalid for a text that is no name."""
        return qualify_name(split_name(name), self.catalog, self.namespace)


def qualify_name(parts: Sequence[str], catalog: str | None, namespace: str | None) -> str:
    """The name within the catalog for parts that may lack the namespace, or have the catalog."""
    own = list(parts)
    if len(own) == 1 and namespace:
        own = [*split_name(namespace), *own]
    elif len(own) > 2 and own[0] == catalog:
        own = own[1:]
    return join_name(own)
