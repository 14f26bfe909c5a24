/** The places of the nodes of a lineage graph, and what they are called. */
import type { LineageEdge, LineageGraph, LineageNode } from '../api/types';
import { paths } from './paths';

export interface LineagePlace {
  id: string;
  node: LineageNode;
  column: number;
  row: number;
}

export interface LineageLine {
  from: LineagePlace;
  to: LineagePlace;
  edges: LineageEdge[];
}

const KINDS: Record<string, string> = {
  table: 'table',
  view: 'view',
  pipeline: 'pipeline',
  hive_table: 'Hive table',
  topic: 'topic',
  job: 'job',
  engine: 'engine',
  writer: 'writer',
  consumer: 'consumer',
  dataset: 'dataset',
};

const ORIGINS: Record<string, string> = {
  view: 'SQL of the view',
  pipeline: 'pipeline',
  commit: 'commits',
  scan: 'scan reports',
  openlineage: 'OpenLineage events',
  hive: 'link to Hive',
  log: 'log store',
  consumer: 'registered consumer',
};

export const originText = (edge: LineageEdge): string => ORIGINS[edge.origin] ?? edge.origin;

/** "view", "job of airflow", "table, does not exist". */
export function kindText(node: LineageNode): string {
  const kind = KINDS[node.kind] ?? node.kind;
  if (node.kind === 'pipeline') return `pipeline of ${node.name}`;
  if (node.namespace != null && node.namespace !== '') return `${kind} of ${node.namespace}`;
  return node.exists === false ? `${kind}, does not exist` : kind;
}

export const nameOf = (node: LineageNode): string => (node.kind === 'pipeline' ? (node.pipeline ?? node.name) : node.name);

/** Where a click leads; nothing for nodes without a page. */
export function pathOf(node: LineageNode): string | undefined {
  if ((node.kind === 'table' || node.kind === 'view') && node.exists !== false && node.catalog != null) return paths.table(node.catalog, node.name, 'lineage');
  if (node.kind === 'pipeline' && node.pipeline != null) return `${paths.pipeline(node.pipeline)}?table=${encodeURIComponent(node.name)}`;
  if (node.kind === 'hive_table' && node.catalog != null) return paths.hive(node.catalog);
  return undefined;
}

/** The table in the middle, its sources to the left and its readers to the right, each as far away as the longest way that leads there by steps. */
export function layOutLineage(graph: LineageGraph): { places: LineagePlace[]; lines: LineageLine[] } {
  const depth = depthsOf(graph);
  const first = Math.min(0, ...depth.values());
  const filled = new Map<number, number>();
  const places = [...graph.nodes]
    .sort((a, b) => kindText(a).localeCompare(kindText(b)) || a.name.localeCompare(b.name))
    .map((node) => {
      const column = (depth.get(node.id) ?? 0) - first;
      const row = filled.get(column) ?? 0;
      filled.set(column, row + 1);
      return { id: node.id, node, column, row };
    });
  const byId = new Map(places.map((place) => [place.id, place]));
  const lines = new Map<string, LineageLine>();
  for (const edge of graph.edges) {
    const [from, to] = [byId.get(edge.source), byId.get(edge.target)];
    if (from === undefined || to === undefined) continue;
    const line = lines.get(`${edge.source} ${edge.target}`) ?? { from, to, edges: [] };
    line.edges.push(edge);
    lines.set(`${edge.source} ${edge.target}`, line);
  }
  return { places, lines: [...lines.values()] };
}

/** Hops from the root over edges in one direction, so that a computation has a column of its own; sources are negative. */
function depthsOf({ root, edges }: LineageGraph): Map<string, number> {
  const depths = new Map([[root, 0]]);
  for (const sign of [-1, 1]) {
    let level = [root];
    for (let hops = 1; level.length > 0; hops += 1) {
      const next = new Set<string>();
      for (const { source, target } of edges) {
        const [near, far] = sign < 0 ? [target, source] : [source, target];
        if (level.includes(near) && !depths.has(far)) next.add(far);
      }
      for (const id of next) depths.set(id, sign * hops);
      level = [...next];
    }
  }
  return depths;
}
