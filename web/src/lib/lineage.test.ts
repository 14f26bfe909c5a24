import { expect, test } from 'vitest';

import type { LineageGraph, LineageNode } from '../api/types';
import { kindText, layOutLineage, pathOf } from './lineage';

const node = (id: string, kind = 'table', more: Partial<LineageNode> = {}): LineageNode =>
  ({ id, kind, name: id, catalog: 'lake', namespace: null, pipeline: null, exists: true, distance: 0, columns: [], ...more }) as LineageNode;
const edge = (source: string, target: string, origin = 'view') => ({ source, target, origin, has_columns: false, columns: [] });
const graph = (ids: LineageNode[], ...edges: [string, string][]): LineageGraph =>
  ({ table: 'db.t', root: 't', direction: 'both', depth: 2, nodes: ids, edges: edges.map(([a, b]) => edge(a, b)), is_cut: false }) as unknown as LineageGraph;

test('sources are on the left and readers on the right, computations between them', () => {
  const { places, lines } = layOutLineage(graph([node('t'), node('p', 'pipeline'), node('out'), node('in')], ['in', 't'], ['t', 'p'], ['p', 'out']));
  expect(Object.fromEntries(places.map(({ id, column }) => [id, column]))).toEqual({ in: 0, t: 1, p: 2, out: 3 });
  expect(lines).toHaveLength(3);
});

test('two edges between two nodes are one line, and a circle ends', () => {
  const { lines } = layOutLineage(graph([node('t'), node('a')], ['a', 't'], ['a', 't'], ['t', 'a']));
  expect(lines.map(({ edges }) => edges.length)).toEqual([2, 1]);
});

test('a node says what it is, and leads to its page', () => {
  expect(kindText(node('a', 'job', { namespace: 'airflow' }))).toBe('job of airflow');
  expect(kindText(node('a', 'table', { exists: false }))).toBe('table, does not exist');
  expect(pathOf(node('db.a'))).toBe('/c/lake/tables/db.a?tab=lineage');
  expect(pathOf(node('db.a', 'table', { exists: false }))).toBeUndefined();
  expect(pathOf(node('db.a', 'pipeline', { pipeline: 'daily' }))).toBe('/pipelines/daily?table=db.a');
});
