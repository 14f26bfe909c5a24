import { expect, test } from 'vitest';

import type { Run } from '../api/types';
import { changedText, changesText, heldResults, lagText, markReasons } from './pipelines';

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
  expect(markReasons('a, b', [reason(1, 4), reason(1, 1)])[0]?.map(({ text }) => text)).toEqual(['a', ', ', 'b']);
  expect(markReasons('  LIMIT 5', [reason(1, null)])[0]?.map(({ text, forced }) => [text, forced !== undefined])).toEqual([
    ['  ', false],
    ['LIMIT 5', true],
  ]);
});

test('a part ends with its expression', () => {
  const marked = (line: string, column: number) => markReasons(line, [reason(1, column)])[0]?.find(({ forced }) => forced !== undefined)?.text;
  expect(marked('SELECT id, rank() OVER (ORDER BY a, b) AS r FROM t', 12)).toBe('rank() OVER (ORDER BY a, b)');
  expect(marked('SELECT rand(), id', 8)).toBe('rand()');
  expect(marked('SELECT id - (SELECT avg(v) FROM f) AS x', 13)).toBe('(SELECT avg(v) FROM f)');
  expect(marked('WHERE (k NOT IN (SELECT k FROM e)) AND v', 8)).toBe('k NOT IN (SELECT k FROM e)');
  expect(marked('FROM f RIGHT JOIN d ON f.k = d.k', 8)).toBe('RIGHT JOIN d ON f.k = d.k');
});

test('a place outside the text marks nothing', () => {
  expect(markReasons('a', [reason(9, 1), reason(1, 80)])).toEqual([[{ text: 'a', forced: undefined }]]);
});

test('a held run says what publishing changes, as far as its attempt has told', () => {
  const run = (result: Run['result']) => ({ table: 'm.b', result }) as unknown as Run;
  const both = heldResults(run({ mode: 'full', written: 2, together: { 'm.a': { mode: 'full', deleted: 1 } } }), ['m.a', 'm.b']);
  expect(both.map(([name, result]) => `${name}: ${changedText(result)}`)).toEqual(['m.a: 1 row to delete', 'm.b: 2 rows to write']);
  const lost = heldResults(run({ mode: 'nothing', written: 0, held: true }), ['m.a', 'm.b']);
  expect(lost.map(([name, result]) => `${name}: ${changedText(result)}`)).toEqual(['m.a: its changes, which nobody counted', 'm.b: its changes, which nobody counted']);
  expect(changedText({ mode: 'full', written: 0, deleted: 0 })).toBe('no row changes');
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
