import { expect, it } from 'vitest';

import { plain, resultText } from './result';

it('a result is a line of its first values, bytes in their units', () => {
  expect(resultText({ rewritten_files: 8, rewritten_bytes: 41_200_000, gained: { files_before: 8 }, mode: 'auto' })).toBe('rewritten files 8, rewritten bytes 39.3 MiB');
  expect(resultText({ a: 1, b: 2, c: 3, d: 4, e: 5 })).toBe('a 1, b 2, c 3, d 4');
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
