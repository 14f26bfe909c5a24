import { expect, test } from 'vitest';

import type { Backfill } from '../api/types';
import { backfillCommand, currentText, estimatedEnd, progressText, secondsPerChunk } from './backfills';

const START = '2026-01-01T00:00:00Z';
const at = (seconds: number) => new Date(Date.parse(START) + seconds * 1000).toISOString();
const chunk = (number: number, done_at: string | null, state = 'pending') => ({ number, condition: `day = ${number}`, state: done_at === null ? state : 'done', attempts: 0, done_at });

const backfill = (chunks: Backfill['chunks'], status: Backfill['status'] = 'active') =>
  ({ created_at: START, chunks, status, total: chunks.length, done: chunks.filter(({ state }) => state === 'done').length }) as Backfill;

test('without a committed chunk there is neither a pace nor an end', () => {
  const none = backfill([chunk(1, null), chunk(2, null)]);
  expect([secondsPerChunk(none), estimatedEnd(none, 0), progressText(none)]).toEqual([null, null, '0 of 2 chunks']);
});

test('a run of two chunks, and a pause of a day, do not change the pace', () => {
  const paused = backfill([chunk(1, at(60)), chunk(2, at(180)), chunk(3, at(180)), chunk(4, at(90_000)), chunk(5, null)]);
  expect(secondsPerChunk(paused)).toBe(60);
  expect(progressText(paused)).toBe('4 of 5 chunks · 60 s a chunk · about 60 s left');
  expect(estimatedEnd(paused, 1_000)).toBe(61_000);
});

test('one that is paused or finished has no end ahead', () => {
  const chunks = [chunk(1, at(60)), chunk(2, null)];
  expect(progressText(backfill(chunks, 'paused'))).toBe('1 of 2 chunks · 60 s a chunk');
  expect(estimatedEnd(backfill(chunks, 'paused'), 0)).toBeNull();
  expect(estimatedEnd(backfill([chunk(1, at(60))], 'finished'), 0)).toBeNull();
});

test('the chunks of the active run', () => {
  expect(currentText({ where: 'day > 0', chunks: [chunk(1, at(1)), chunk(2, null)] })).toBe('');
  expect(currentText({ where: 'day > 0', chunks: [chunk(1, null, 'running')] })).toBe('a run computes day = 1');
  expect(currentText({ where: 'day > 0', chunks: [chunk(1, null, 'running'), chunk(2, null, 'running')] })).toBe('a run computes 2 chunks, from day = 1 on');
  expect(currentText({ where: null, chunks: [chunk(1, null, 'running')] })).toBe('a run computes it');
});

test('the jobs beside the runs', () => {
  const backfill = { where: 'day > 0', beside: 4, jobs: ['a', 'b'] };
  expect(currentText({ ...backfill, chunks: [chunk(1, null, 'running'), chunk(2, null)] })).toBe('2 of up to 4 jobs beside the runs, with 1 chunk');
  expect(currentText({ ...backfill, beside: 1, jobs: [], chunks: [chunk(1, null)] })).toBe('0 of up to 1 job beside the runs');
});

test('the command requests the same backfill, whatever the condition holds', () => {
  const fields = { where: ' driver = 7 ', minutes: 5, chunks: null, beside: null };
  expect(backfillCommand('orders', 'mart.t', fields, 'http://127.0.0.1:8630')).toBe("firn pipeline backfill orders mart.t --where 'driver = 7'");
  const hostile = { where: "name = 'x'; $(rm)", minutes: 10, chunks: 3, beside: 2 };
  expect(backfillCommand('my orders', 'mart.`a b`', hostile, 'http://127.0.0.1:8630')).toBe(
    String.raw`firn pipeline backfill 'my orders' 'mart.${'`'}a b${'`'}' --where 'name = '\''x'\''; $(rm)' --chunk 10min --chunks 3 --beside 2`,
  );
});
