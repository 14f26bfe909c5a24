import { expect, test } from 'vitest';

import { formulaOf, readerTime, savingsLine, type Saved } from './savings';

const SAVED: Saved = {
  files_removed: 1_200,
  bytes_removed: 2_048,
  bytes_freed: 0,
  jobs: 3,
  failed_jobs: 0,
  job_seconds: 90,
  scans: 40,
  openings_saved: 48_000,
  opening_ms: 10,
  reader_seconds: 480,
};

test('savings show the formula of what is estimated', () => {
  expect(formulaOf(SAVED)).toContain('48,000 fewer files to open, at 10 ms each');
  expect(savingsLine(SAVED)).toContain('Reader time saved: about 8 min');
});

test('nothing is estimated without scans', () => {
  const unknown = { ...SAVED, scans: 0, openings_saved: 0, reader_seconds: null };
  expect(readerTime(unknown)).toBe('cannot be estimated');
  expect(formulaOf(unknown)).toBe('No engine has reported scans in this time.');
});

test('a time that nobody would notice is not told in milliseconds', () => {
  expect([0, 0.2, 2].map((seconds) => readerTime({ ...SAVED, reader_seconds: seconds }))).toEqual(['none', 'less than a second', 'about 2 s']);
});
