import { describe, expect, it } from 'vitest';

import type { CommitEvent, Job } from '../api/types';
import { axisFor, endOf, momentsOf, rowsOf } from './timeline';

const at = (second: number) => new Date(second * 1000).toISOString();
const commit = (id: number, second: number) => ({ id, committed_at: at(second) }) as CommitEvent;
const job = (id: string, from: number | null, to: number | null) =>
  ({ id, leased_at: from === null ? null : at(from), ended_at: to === null ? null : at(to) }) as Job;

it('commits and jobs come in the order of time, jobs that have not begun not at all', () => {
  const moments = momentsOf([commit(2, 30), commit(1, 10)], [job('a', 20, 40), job('b', null, null)]);
  expect(moments.map(({ key }) => key)).toEqual(['commit-1', 'job-a', 'commit-2']);
});

it('the axis goes on to now while a job runs', () => {
  const running = momentsOf([commit(1, 0)], [job('a', 10, null)]);
  expect(axisFor(running, 500_000).to).toBeGreaterThanOrEqual(500_000);
  const ended = momentsOf([commit(1, 0)], [job('a', 10, 100)]);
  expect(axisFor(ended, 500_000).to).toBeLessThan(200_000);
});

it('a job that waits again has ended with its last attempt', () => {
  const attempts = [{ ended_at: at(30) }] as Job['attempts'];
  expect(endOf({ ...job('a', 10, null), status: 'pending', attempts }, 500_000)).toBe(30_000);
  expect(endOf({ ...job('a', 10, null), status: 'running', attempts }, 500_000)).toBe(500_000);
});

describe('jobs over rows', () => {
  const ids = (rows: Job[][]) => rows.map((row) => row.map(({ id }) => id));

  it('share a row while they do not meet', () => {
    expect(ids(rowsOf([job('b', 20, 30), job('a', 0, 10)], 0, 1000))).toEqual([['a', 'b']]);
  });

  it('that overlap, or nearly touch, are drawn below each other', () => {
    expect(ids(rowsOf([job('a', 0, 10), job('b', 5, 15), job('c', 16, 20)], 0, 1000))).toEqual([['a', 'c'], ['b']]);
    expect(ids(rowsOf([job('a', 0, 10), job('b', 10.5, 15)], 0, 1000))).toEqual([['a'], ['b']]);
  });

  it('that still run last until now', () => {
    expect(ids(rowsOf([job('a', 0, null), job('b', 50, 60)], 100_000, 0))).toEqual([['a'], ['b']]);
  });
});
