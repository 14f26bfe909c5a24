import { expect, test } from 'vitest';

import type { CommitEvent } from '../api/types';
import { describeCommit, ownerOf } from './commits';

const event = (more: Partial<CommitEvent>) =>
  ({ table: 'db.orders.base', job_kind: null, snapshot_id: '1', operation: 'overwrite', headline: 'overwrite: +1 row', added_rows: 0, removed_rows: 0, ...more }) as CommitEvent;

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
