import { NativeSelect } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { tableLineage } from '../../api/lineage-queries';
import type { Direction, LineageEdge, LineageGraph, LineageNode } from '../../api/types';
import { Choice } from '../../components/choice';
import { DataTable, type Column } from '../../components/data-table';
import { When } from '../../components/figures';
import { FlowGraph } from '../../components/flow-graph';
import cards from '../../components/flow-graph.module.css';
import { Empty, Note, ProblemNote } from '../../components/notes';
import { kindText, layOutLineage, nameOf, originText, pathOf, type LineagePlace } from '../../lib/lineage';
import { useUrlState } from '../../lib/url-state';

const DIRECTIONS: { value: Direction; label: string }[] = [
  { value: 'both', label: 'Both' },
  { value: 'upstream', label: 'Sources' },
  { value: 'downstream', label: 'Readers' },
];
const DEPTHS = ['1', '2', '3', '5', '10'];
const HEIGHT = 84;

/** What a table or view comes from, and what reads it: a graph, and each of its edges with where it is known from. */
export function LineageTab({ catalog, name, columns }: { catalog: string; name: string; columns: readonly string[] }) {
  const [get, set] = useUrlState();
  const direction = DIRECTIONS.find(({ value }) => value === get('direction'))?.value ?? 'both';
  const depth = DEPTHS.find((item) => item === get('depth')) ?? '2';
  const column = columns.find((item) => item === get('column'));
  const { data, error } = useQuery(tableLineage(catalog, name, { direction, depth: Number(depth), column }));
  return (
    <div className="stack" style={{ padding: 14 }}>
      <div className="row" style={{ flexWrap: 'wrap', gap: 10 }}>
        <Choice label="direction" value={direction} set={(value) => set({ direction: value === 'both' ? undefined : value })} options={DIRECTIONS} />
        <NativeSelect size="xs" aria-label="steps from the table" value={depth} onChange={({ target }) => set({ depth: target.value === '2' ? undefined : target.value })} data={DEPTHS.map((value) => ({ value, label: value === '1' ? '1 step' : `${value} steps` }))} />
        <NativeSelect size="xs" aria-label="column" value={column ?? ''} onChange={({ target }) => set({ column: target.value || undefined })} data={[{ value: '', label: 'all columns' }, ...columns.map((value) => ({ value, label: value }))]} />
      </div>
      {error !== null && <ProblemNote error={error} what="cannot show the lineage" />}
      {data !== undefined && <Shown graph={data} />}
    </div>
  );
}

function Shown({ graph }: { graph: LineageGraph }) {
  if (graph.edges.length === 0) {
    return graph.column == null ? (
      <Empty title="No lineage is known">Views, pipelines, commits, scans and OpenLineage events fill it. A new one takes a few seconds.</Empty>
    ) : (
      <Empty title="No lineage of this column is known">Engines that only report scans and commits do not name columns.</Empty>
    );
  }
  return (
    <>
      {graph.is_cut && <Note tone="warn" title="This is not the whole graph">Choose fewer steps or one direction.</Note>}
      <Drawing graph={graph} />
      <DataTable plain name="edges" columns={edgeColumns(graph)} rows={graph.edges} id={(edge) => `${edge.source} ${edge.target} ${edge.origin}`} empty={null} />
    </>
  );
}

function Drawing({ graph }: { graph: LineageGraph }) {
  const { places, lines } = layOutLineage(graph);
  return (
    <FlowGraph
      places={places}
      lines={lines.map(({ from, to }) => ({ from, to, lit: from.id === graph.root || to.id === graph.root }))}
      height={HEIGHT}
      shown={places.find(({ id }) => id === graph.root)}
      card={(place) => <Card place={place} isRoot={place.id === graph.root} />}
    />
  );
}

function Card({ place: { node }, isRoot }: { place: LineagePlace; isRoot: boolean }) {
  const path = pathOf(node);
  const content = (
    <>
      <span className={cards.name} title={nameOf(node)}>{nameOf(node)}</span>
      <span className={`dim ${cards.name}`} title={kindText(node)}>{kindText(node)}</span>
      {(node.columns ?? []).length > 0 && <span className={cards.name} title={node.columns?.join(', ')}>{node.columns?.join(', ')}</span>}
    </>
  );
  if (path === undefined) return <div className={cards.input}>{content}</div>;
  return <Link to={path} className={cards.card} aria-current={isRoot}>{content}</Link>;
}

function edgeColumns(graph: LineageGraph): Column<LineageEdge>[] {
  const nodes = new Map(graph.nodes.map((node) => [node.id, node]));
  const end = (id: string) => <End node={nodes.get(id)} />;
  return [
    { key: 'from', title: 'From', cell: (edge) => end(edge.source) },
    { key: 'to', title: 'To', cell: (edge) => end(edge.target) },
    { key: 'known', title: 'Known from', cell: (edge) => <>{originText(edge)}{edge.principal != null && <span className="dim"> of {edge.principal}</span>}</>, wide: true },
    ...(graph.column == null ? [] : [{ key: 'columns', title: 'Columns', cell: (edge: LineageEdge) => <span className="mono">{(edge.columns ?? []).map((pair) => `${pair.source_column} → ${pair.target_column}`).join(', ')}</span> }]),
    { key: 'seen', title: 'Last seen', cell: (edge) => <When at={edge.last_seen ?? null} />, right: true },
  ];
}

function End({ node }: { node: LineageNode | undefined }) {
  if (node === undefined) return null;
  const path = pathOf(node);
  const name = <span className="mono">{nameOf(node)}</span>;
  return (
    <>
      {path === undefined ? name : <Link to={path}>{name}</Link>} <span className="dim">{kindText(node)}</span>
    </>
  );
}
