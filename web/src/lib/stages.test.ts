import { expect, it } from 'vitest';

import { stagesOf } from './stages';

const job = { status: 'pending', created_at: 'a', leased_at: null, ended_at: null, committed_snapshot_id: null } as Parameters<typeof stagesOf>[0];
const states = (rest: Partial<typeof job>) => stagesOf({ ...job, ...rest }).map(({ state }) => state);

it('a job is at one step, with what lies behind and ahead of it', () => {
  expect(states({})).toEqual(['done', 'now', 'ahead', 'ahead', 'ahead']);
  expect(states({ status: 'running', leased_at: 'b' })).toEqual(['done', 'done', 'now', 'ahead', 'ahead']);
  expect(states({ status: 'committing', leased_at: 'b' })).toEqual(['done', 'done', 'done', 'now', 'ahead']);
  expect(states({ status: 'succeeded', leased_at: 'b', ended_at: 'c' })).toEqual(['done', 'done', 'done', 'done', 'done']);
});

it('one that failed before it committed has not committed', () => {
  expect(states({ status: 'failed', leased_at: 'b', ended_at: 'c' })).toEqual(['done', 'done', 'done', 'ahead', 'bad']);
  expect(states({ status: 'canceled', ended_at: 'c' })).toEqual(['done', 'done', 'ahead', 'ahead', 'bad']);
});

it('one that nobody knows the end of was committing', () => {
  expect(states({ status: 'unknown', leased_at: 'b' })).toEqual(['done', 'done', 'done', 'bad', 'bad']);
  expect(stagesOf({ ...job, status: 'unknown' }).at(-1)?.name).toBe('outcome unknown');
});

it('one that was handed back waits again', () => {
  expect(states({ status: 'pending', leased_at: 'b' })).toEqual(['done', 'now', 'ahead', 'ahead', 'ahead']);
});
