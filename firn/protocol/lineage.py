"""The lineage of a table, and the answers to OpenLineage events (docs/lineage.md)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from firn.protocol.base import Open, Out

DEEPEST = 10
"""Steps from the table."""
DEFAULT_DEPTH = 2


class Direction(StrEnum):
    """Which way a graph goes from its table."""

    UPSTREAM = "upstream"
    DOWNSTREAM = "downstream"
    BOTH = "both"


class NodeKind(StrEnum):
    """What a node of the graph is."""

    TABLE = "table"
    VIEW = "view"
    PIPELINE = "pipeline"
    HIVE_TABLE = "hive_table"
    TOPIC = "topic"
    JOB = "job"
    ENGINE = "engine"
    WRITER = "writer"
    CONSUMER = "consumer"
    DATASET = "dataset"


class EdgeOrigin(StrEnum):
    """Where an edge is known from."""

    VIEW = "view"
    PIPELINE = "pipeline"
    COMMIT = "commit"
    SCAN = "scan"
    OPENLINEAGE = "openlineage"
    HIVE = "hive"
    LOG = "log"
    CONSUMER = "consumer"


class LineageNodeOut(Out):
    """A node. `catalog` is that of a table, view or Hive table.

    `namespace` is the OpenLineage namespace of a job or dataset, and the broker or connection of a topic. `pipeline`
    is the name of a pipeline, of which `name` is the table. `distance` counts steps from the table: negative upstream.
    A table that does not exist is one that a view, pipeline or event names. `columns` are those of a chosen column's
    lineage.
    """

    id: str
    kind: Open[NodeKind]
    name: str
    catalog: str | None = None
    namespace: str | None = None
    pipeline: str | None = None
    exists: bool = True
    distance: int
    columns: list[str] = []


class ColumnPairOut(Out):
    """A column of an edge's target is computed from a column of a node before it."""

    source: str
    source_column: str
    target_column: str


class LineageEdgeOut(Out):
    """`target` comes from `source`. `last_seen` is the last commit, scan or event, or the reading of a definition.

    `has_columns` says that the lineage of columns is known. `columns` has it for a chosen column.
    """

    source: str
    target: str
    origin: Open[EdgeOrigin]
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    principal: str | None = None
    has_columns: bool = False
    columns: list[ColumnPairOut] = []


class TableLineageGraphOut(Out):
    """The nodes around a table. `root` is the id of the table's node.

    `is_cut` says that there is more: the graph has a limit of nodes and edges. Further steps do not count.
    """

    table: str
    root: str
    direction: Direction
    depth: int
    column: str | None = None
    nodes: list[LineageNodeOut]
    edges: list[LineageEdgeOut]
    is_cut: bool = False


class LineageTakenOut(Out):
    """What the server has kept of an event: edges, and the reasons for what it has left out."""

    edges: int
    left_out: list[str] = []


class FailedEventOut(Out):
    """An event of a batch that the server has refused."""

    index: int
    reason: str
    retriable: bool = False


class BatchSummaryOut(Out):
    """Counts of a batch."""

    received: int
    successful: int
    failed: int
    retriable: int = 0
    non_retriable: int


class BatchTakenOut(Out):
    """The answer to a batch, as the specification of OpenLineage defines it."""

    status: str
    summary: BatchSummaryOut
    failed_events: list[FailedEventOut] = []
