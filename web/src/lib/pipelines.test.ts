import { expect, test } from 'vitest';

import { changesText, lagText, markReasons } from './pipelines';

const reason = (line: number, column: number | null) => ({ text: 'window', line, column, remedy: null });

test('the part that forces full begins at its column and ends with its line', () => {
  const lines = markReasons('SELECT city,\n  rank() OVER (ORDER BY n)\nFROM t', [reason(2, 3)]);
  expect(lines.map((parts) => parts.map(({ text, forced }) => [text, forced !== undefined]))).toEqual([
    [['SELECT city,', false]],
    [
      ['  ', false],
      ['rank() OVER (ORDER BY n)', true],
    ],
    [['FROM t', false]],
  ]);
});

test('two parts of a line, and a reason without a column', () => {
  expect(markReasons('a, b', [reason(1, 4), reason(1, 1)])[0]?.map(({ text }) => text)).toEqual(['a, ', 'b']);
  expect(markReasons('  LIMIT 5', [reason(1, null)])[0]?.map(({ text, forced }) => [text, forced !== undefined])).toEqual([
    ['  ', false],
    ['LIMIT 5', true],
  ]);
});

test('a place outside the text marks nothing', () => {
  expect(markReasons('a', [reason(9, 1), reason(1, 80)])).toEqual([[{ text: 'a', forced: undefined }]]);
});

test('a table is late if it is further behind than its target', () => {
  expect(lagText({ lag_seconds: 1200, target_seconds: 900 })).toEqual({ text: '20 min behind, target 15 min', late: true });
  expect(lagText({ lag_seconds: 0, target_seconds: null })).toEqual({ text: 'up to date', late: false });
  expect(lagText({ lag_seconds: null, target_seconds: null })).toEqual({ text: '', late: false });
});

test('changes of an input say what was counted', () => {
  expect(changesText({ table: 't', commits: 2, files: 31, bytes: 2048 })).toBe('2 commits, 31 files, 2 KiB');
  expect(changesText({ table: 't' })).toBe('changed');
});
