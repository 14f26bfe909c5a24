import { expect, it } from 'vitest';

import type { Group, Optimizer } from '../api/types';
import { loadsOf, whyNotDropped } from './fleet';

const group = (name: string, created_at: string | null = null) => ({ name, created_at }) as Group;
const worker = (name: string, rest: Partial<Optimizer>) => ({ group: name, slots: 4, jobs: [], silent: false, draining: false, ...rest }) as unknown as Optimizer;

it('slots are those of optimizers that can be heard and take jobs', () => {
  const workers = [worker('a', { jobs: ['1'] }), worker('a', { silent: true }), worker('a', { draining: true, jobs: ['2'] })];
  expect(loadsOf([group('a')], workers)).toMatchObject([{ optimizers: 2, slots: 5, busy: 2 }]);
});

it('a group that only optimizers name is shown too', () => {
  expect(loadsOf([group('default')], [worker('nightly', {})]).map((row) => row.group.name)).toEqual(['default', 'nightly']);
});

it('only a group that somebody made and nobody works in can be dropped', () => {
  const why = (row: Group, optimizers: number) => whyNotDropped({ group: row, optimizers, slots: 0, busy: 0 });
  expect(why(group('default'), 0)).toMatch('always there');
  expect(why(group('nightly', '2026-01-01'), 2)).toMatch('stop them first');
  expect(why(group('nightly', '2026-01-01'), 0)).toBeNull();
});
