import { describe, expect, it } from 'vitest';

import { failing, perMinute, stuck, whyNothingRuns } from './queue';

const group = (name: string, slots: number, running: number, waiting: number) => ({ name, slots, running, waiting, oldest_seconds: waiting > 0 ? 90 : null });
const titles = (...groups: ReturnType<typeof group>[]) => whyNothingRuns(groups).map(({ title }) => title);

describe('why nothing runs', () => {
  it('is that nothing is due, when nothing is', () => {
    expect(titles(group('default', 4, 0, 0), group('nightly', 0, 0, 0))).toEqual(['No jobs are queued or running']);
  });

  it('is told of the group that nobody works in, also while others run', () => {
    expect(titles(group('default', 4, 2, 1), group('nightly', 0, 0, 12))).toEqual(['12 jobs wait, the oldest for 90 s: no optimizer of group nightly is running']);
    expect(stuck([group('default', 4, 2, 1), group('nightly', 0, 0, 12)]).map(({ name }) => name)).toEqual(['nightly']);
  });

  it('can be that all slots are in use, or that it is a matter of moments', () => {
    expect(titles(group('default', 2, 2, 1))).toEqual(['1 job waits in group default, the oldest for 90 s: 2 slots, all in use']);
    expect(titles(group('default', 2, 0, 3))).toEqual(['3 jobs wait in group default, the oldest for 90 s and will start in a moment']);
  });

  it('is nothing while jobs run and slots are free', () => {
    expect(titles(group('default', 4, 1, 0))).toEqual([]);
  });
});

it('small rates keep their digits', () => {
  expect([0, 0.034, 1.5, 61.7].map(perMinute)).toEqual(['0', '0.03', '1.5', '62']);
});

it('a kind fails when it fails again and again and more often than it succeeds', () => {
  const done = [
    { kind: 'rewrite', status: 'failed', jobs: 3 },
    { kind: 'rewrite', status: 'succeeded', jobs: 1 },
    { kind: 'merge', status: 'failed', jobs: 2 },
    { kind: 'merge', status: 'succeeded', jobs: 40 },
    { kind: 'expire', status: 'failed', jobs: 1 },
  ];
  expect(failing(done)).toEqual([{ kind: 'rewrite', failed: 3, succeeded: 1 }]);
});
