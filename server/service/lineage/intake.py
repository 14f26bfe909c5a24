"""Takes in OpenLineage events of Spark, dbt, Airflow and others.

A caller may say of a table only what its privileges let it do: that a job reads a table needs `read` on it, and that a
job writes a table needs `write`. Without them the dataset is left out, in the same words whether or not it exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from catalog.access.privileges import Privilege, Rights, Securable
from catalog.errors import Conflict
from catalog.lineage.event import MOST_DATASETS, Dataset, DatasetName, LineageEvent, read_event
from catalog.lineage.node import Columns, Edge, Node
from catalog.ports.store import Database, UnitOfWork
from firn.protocol.lineage import EdgeOrigin, NodeKind
from server.service.lineage.datasets import DatasetMatcher, MatchedDataset

MOST_AT_NODE = 500
"""Edges of events at one table, dataset or job."""
MOST_OF_SENDER = 50_000
"""Edges of events that one principal has sent last."""
_MOST_MATCHED = 3 * MOST_DATASETS
"""Datasets of one event, with those that only its columns name."""
_OWN_PRODUCER = "urn:firn:server:"
_Matched = Mapping[DatasetName, MatchedDataset]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Who sends an event; without access control nobody knows the principal, and `rights` allows everything."""

    principal: str | None
    rights: Rights | None
    address: str
    """The address of this server, as the sender's request names it."""

    def sees(self, on: Securable) -> bool:
        """Whether the sender may see a table."""
        return self.rights is None or self.rights.sees(on)

    def may(self, privilege: Privilege, dataset: MatchedDataset) -> bool:
        """Whether the sender has a privilege on the table that a dataset means; anybody has on foreign datasets."""
        return dataset.on is None or self.rights is None or self.rights.has(privilege, dataset.on)


@dataclass(frozen=True, slots=True)
class Taken:
    """The number of edges of an event, and the reasons for what was left out."""

    edges: int
    left_out: Sequence[str] = ()


@dataclass(frozen=True)
class LineageIntake:
    """Stores the edges of events, each event in one transaction."""

    database: Database
    matcher: DatasetMatcher

    def take(self, document: object, sender: Sender) -> Taken:
        """Store an event. Raises Invalid for malformed events, and Conflict if a limit of stored edges is reached."""
        with self.database.reading() as uow:
            now = uow.now()
            event = read_event(document, now)
            if event.job is None or self._is_own(uow, event):
                return Taken(0, event.left_out)
            matched = self.matcher.match(uow, _list_datasets(event), sender.address, sender.sees)
        edges, left_out = _build_edges(event, matched, sender)
        if not edges:
            return Taken(0, [*event.left_out, *left_out])
        with self.database.writing() as uow:
            full = _check_room(uow, edges, sender)
            kept = [edge for edge in edges if edge.source.key not in full and edge.target.key not in full]
            uow.lineage.observe(kept)
        if full:
            left_out.append(f"{len(edges) - len(kept)} edges: a table or job keeps {MOST_AT_NODE} edges of events")
        return Taken(len(kept), [*event.left_out, *left_out])

    def _is_own(self, uow: UnitOfWork, event: LineageEvent) -> bool:
        """Whether the event is about a pipeline of this server, of which it knows more than the event says."""
        if not event.producer.startswith(_OWN_PRODUCER) or event.job is None:
            return False
        name = event.job.name.partition(".")[0]
        return event.job.namespace == self.matcher.namespace and uow.pipelines.find(name) is not None


def _list_datasets(event: LineageEvent) -> list[Dataset]:
    """All datasets of an event, each once; those that only its columns name have no symlinks."""
    datasets = {dataset.name: dataset for dataset in (*event.outputs, *event.inputs)}
    for output in event.outputs:
        for sources in (output.columns or {}).values():
            for name, _ in sources:
                datasets.setdefault(name, Dataset(name=name))
    return list(datasets.values())[:_MOST_MATCHED]


def _build_edges(event: LineageEvent, matched: _Matched, sender: Sender) -> tuple[list[Edge], list[str]]:
    assert event.job is not None  # the caller has checked it
    job = Node(NodeKind.JOB, event.job.name, event.job.namespace)
    edges, left_out = [], []
    for dataset, privilege in _list_roles(event):
        match = matched[dataset.name]
        if not sender.may(privilege, match):
            left_out.append(f"{dataset.name.name}: an event about it needs {privilege} on the table")
            continue
        is_output = privilege is Privilege.WRITE
        edge = Edge(
            source=job if is_output else match.node,
            target=match.node if is_output else job,
            origin=EdgeOrigin.OPENLINEAGE,
            seen_at=event.at,
            principal=sender.principal,
            columns=_map_columns(dataset, matched, sender) if is_output else None,
        )
        edges.append(edge)
    return edges, left_out


def _list_roles(event: LineageEvent) -> Iterator[tuple[Dataset, Privilege]]:
    for dataset in event.inputs:
        yield dataset, Privilege.READ
    for dataset in event.outputs:
        yield dataset, Privilege.WRITE


def _map_columns(dataset: Dataset, matched: _Matched, sender: Sender) -> Columns | None:
    if not dataset.columns:
        return None
    return {
        column: [
            (matched[name].node.key, source)
            for name, source in sources
            if name in matched and sender.may(Privilege.READ, matched[name])
        ]
        for column, sources in dataset.columns.items()
    }


def _check_room(uow: UnitOfWork, edges: Sequence[Edge], sender: Sender) -> set[str]:
    """The nodes that take no further edge. Edges that are stored already need no room."""
    existing = uow.lineage.existing_edges(edges)
    new = [edge for edge in edges if (edge.source.key, edge.target.key) not in existing]
    if not new:
        return set()
    sent = uow.lineage.count_of_sender(sender.principal, EdgeOrigin.OPENLINEAGE, limit=MOST_OF_SENDER)
    if sent + len(new) > MOST_OF_SENDER:
        raise Conflict(
            f"events of one sender may have {MOST_OF_SENDER:,} edges",
            hint="edges expire after lineage.days without an event; use job names that stay the same between runs",
        )
    keys = {key for edge in new for key in (edge.source.key, edge.target.key)}
    counts = uow.lineage.count_edges_at(keys, EdgeOrigin.OPENLINEAGE)
    return {key for key, count in counts.items() if count >= MOST_AT_NODE}
