import { beforeEach, expect, it, vi } from 'vitest';

import type { SearchHit } from '../api/types';
import { describeHit, findPlaces, fits, forgetTable, groupHits, pathOf, placesFor, recentTables, rememberTable } from './search';

const hit = (more: Partial<SearchHit> = {}): SearchHit => ({
  kind: 'table',
  catalog: 'lake',
  name: 'sales.orders',
  id: null,
  part: 'name',
  column: null,
  text: '',
  detail: '',
  ...more,
});

beforeEach(() => {
  const kept = new Map<string, string>();
  vi.stubGlobal('localStorage', { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => kept.set(key, value) });
});

it('a hit for an earlier text stays only while it fits what is typed', () => {
  expect(fits(hit(), 'ord', 'o')).toBe(true);
  expect(fits(hit(), 'sales.ord', 'sales')).toBe(true);
  expect(fits(hit(), 'orx', 'or')).toBe(false);
  expect(fits(hit({ text: 'column amount: "gross"' }), 'gro', 'g')).toBe(true);
  expect(fits(hit({ name: 'x' }), 'y', 'y')).toBe(true); // the server knows better
  expect(fits(hit({ kind: 'job', id: 'abcd1234-0000' }), 'abcd12', 'abcd')).toBe(true);
});

it('pages are found by their names and by other words, and only by those who may see them', () => {
  const open = placesFor({ access: false, grants: [] }, 'lake', ['lake', 'pond']);
  expect(findPlaces(open, 'job')[0]?.label).toBe('Jobs');
  expect(findPlaces(open, 'undrop').map(({ label }) => label)).toEqual(['Dropped tables']);
  expect(findPlaces(open, 'pond').map(({ to }) => to)).toEqual(['/c/pond']);
  expect(findPlaces(open, 'audit')).toEqual([]);
  const reader = placesFor({ access: true, grants: [] }, 'lake', ['lake']).map(({ label }) => label);
  expect(reader).toContain('Tokens');
  for (const label of ['Status', 'Optimizers', 'Audit', 'People and services']) expect(reader).not.toContain(label);
});

it('hits are grouped, with those of this catalog first', () => {
  const far = hit({ catalog: 'pond' });
  const column = hit({ part: 'column', column: 'amount', text: 'column amount' });
  expect(groupHits([far, hit(), column], 'lake')).toEqual([
    { label: 'Tables', hits: [hit(), far] },
    { label: 'Columns, comments and labels', hits: [column] },
  ]);
  expect(describeHit(far, 'lake')).toBe('in pond');
  expect(describeHit(column, 'lake')).toBe('column amount');
});

it('each kind leads to its page', () => {
  expect(pathOf(hit({ catalog: 'pond' }), 'lake')).toBe('/c/pond/tables/sales.orders');
  expect(pathOf(hit({ kind: 'job', id: 'abc' }), 'lake')).toBe('/jobs/abc');
  expect(pathOf(hit({ kind: 'setting', catalog: null, name: 'firn.merge.mode' }), 'lake')).toBe('/c/lake/policies?find=firn.merge.mode');
});

it('the last tables come first, once each, for each person', () => {
  for (const table of ['a', 'b', 'a']) rememberTable('ann', { catalog: 'lake', table });
  expect(recentTables('ann').map(({ table }) => table)).toEqual(['a', 'b']);
  expect(recentTables(null)).toEqual([]);
  forgetTable('ann', { catalog: 'lake', table: 'a' });
  expect(recentTables('ann').map(({ table }) => table)).toEqual(['b']);
  localStorage.setItem('firn.recent.ann', '{"not":"a list"}');
  expect(recentTables('ann')).toEqual([]);
});
