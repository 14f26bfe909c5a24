import { expect, test } from 'vitest';

import { diffLines, foldSame } from './diff';

const show = (before: string, after: string) => diffLines(before, after).map(({ kind, text }) => `${{ same: ' ', added: '+', removed: '-' }[kind]}${text}`);

test('lines that stay are shared, in order', () => {
  expect(show('a\nb\nc', 'a\nx\nc')).toEqual([' a', '-b', '+x', ' c']);
  expect(show('a\nb', 'b\na')).toEqual(['-a', ' b', '+a']);
  expect(show('a', 'a')).toEqual([' a']);
  expect(show('a\nb\nd', 'a\nc\nb\nd')).toEqual([' a', '+c', ' b', ' d']);
  expect(show('a\na', 'a')).toEqual([' a', '-a']);
});

test('very long texts count as replaced between their ends', () => {
  const long = (name: string) => Array.from({ length: 1100 }, (_, number) => `${name}${String(number)}`).join('\n');
  const lines = diffLines(`first\n${long('a')}\nlast`, `first\n${long('b')}\nlast`);
  expect(lines.map(({ kind }) => kind).filter((kind) => kind === 'same')).toHaveLength(2);
  expect(lines).toHaveLength(2202);
});

test('lines far from a change are left out and counted', () => {
  const lines = diffLines('1\n2\n3\n4\n5\n6', '1\n2\n3\n4\n5\nx');
  expect(foldSame(lines, 1).map(({ line, gap }) => [line.text, gap])).toEqual([
    ['5', 4],
    ['6', 0],
    ['x', 0],
  ]);
});
