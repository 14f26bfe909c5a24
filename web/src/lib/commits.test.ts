import { expect, test } from 'vitest';

import type { CommitEvent } from '../api/types';
import { describeCommit, groupCommits, ownerOf } from './commits';

const event = (more: Partial<CommitEvent>) =>
  ({ table: 'db.orders.base', job_kind: null, snapshot_id: '1', operation: 'overwrite', headline: 'overwrite: +1 row', added_rows: 0, removed_rows: 0, added_bytes: 0, topics: [], ...more }) as CommitEvent;

test('a commit of a job is told by what the job does', () => {
  expect(describeCommit(event({ job_kind: 'merge', added_rows: 4051, removed_rows: 1875 }))).toBe('merged pending changes: +4,051 −1,875 rows');
  expect(describeCommit(event({ job_kind: 'expire' }))).toBe('expired snapshots');
});

test('a job that changes no row tells no rows', () => {
  expect(describeCommit(event({ job_kind: 'rewrite', added_rows: 500, removed_rows: 500 }))).toBe('packed small files');
});

test('an append to the change store is an upsert or a delete', () => {
  expect(describeCommit(event({ table: 'db.orders.change', operation: 'append', added_rows: 1 }))).toBe('upserted or deleted 1 row');
});

test('any other commit has its headline', () => {
  expect(describeCommit(event({}))).toBe('overwrite: +1 row');
  expect(describeCommit(event({ table: 'db.orders.change', operation: 'alter', snapshot_id: null, headline: 'set property a to b' }))).toBe('set property a to b');
});

test('a store belongs to its table', () => {
  expect(['db.orders.base', 'db.orders.change', 'db.base'].map(ownerOf)).toEqual(['db.orders', 'db.orders', 'db.base']);
});

test('the commits of one merge are one line, which says how many changes it merged', () => {
  const merge = event({ id: 7, job_id: 'a', job_kind: 'merge', added_rows: 9000, removed_rows: 4000, added_bytes: 10 });
  const clean = event({ id: 8, job_id: 'a', job_kind: 'merge', table: 'db.orders.change', operation: 'delete', removed_rows: 6126, added_bytes: 1 });
  const other = event({ id: 9, job_id: null, table: 'db.visits' });
  const created = event({ id: 1, job_id: null, table: 'db.orders.change', topics: ['life'] });
  const shown = groupCommits([other, clean, merge, created]);
  expect(shown.map(({ table, text, bytes }) => [table, text, bytes])).toEqual([
    ['db.visits', 'overwrite: +1 row', 0],
    ['db.orders', 'merged 6,126 changes', 11],
  ]);
  expect(groupCommits([merge])[0]?.text).toBe('merged pending changes: +9,000 −4,000 rows');
});
