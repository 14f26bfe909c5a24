import { expect, it } from 'vitest';

import { plain, resultText } from './result';

it('a result is a line of its first values, bytes in their units', () => {
  expect(resultText({ rewritten_files: 8, rewritten_bytes: 41_200_000, gained: { files_before: 8 }, mode: 'auto' })).toBe('8 rewritten files, 39.3 MiB rewritten');
  expect(resultText({ a: 1, b: 2, c: 3, d: 4, e: 5 })).toBe('1 a, 2 b, 3 c, 4 d');
  expect(resultText({ snapshot_id: '17', keys: 1, surplus_rows: 2, groups_done: 1, bytes: 2048 })).toBe('1 duplicate key, 2 duplicate rows, 1 group done, 2 KiB');
});

it('values inside of values keep their units', () => {
  expect(plain('stores', { base: { added_bytes: 2_000_000, files: 3 } })).toBe('base added bytes 1.9 MiB, files 3');
  expect(plain('columns', ['day', 'site'])).toBe('day, site');
  expect(plain('share', 0.256)).toBe('0.26');
  expect(plain('whole_partitions', true)).toBe('yes');
});

it('a moment stands on the clock of who reads it', () => {
  expect(plain('cutoff', '2026-08-01T03:00:00+00:00')).toMatch(/2026/);
  expect(plain('cutoff', '2026-08-01T03:00:00+00:00')).not.toContain('T03');
});
