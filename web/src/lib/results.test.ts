import { describe, expect, it } from 'vitest';

import { axisOf, pointsOf, sortRows, suggestChart, toClipboard, wordsOf } from './results';

const COLUMNS = [
  { name: 'country', type: 'VARCHAR' },
  { name: 'orders', type: 'BIGINT' },
  { name: 'share', type: 'DOUBLE' },
];

describe('the order of rows', () => {
  it('compares numbers as numbers, and large ones exactly', () => {
    const rows = [['a', '10', '1'], ['b', '9', '1'], ['c', '9007199254740993', '1'], ['d', '9007199254740992', '1']];
    expect(sortRows(rows, COLUMNS, 1, false).map(([name]) => name)).toEqual(['b', 'a', 'd', 'c']);
  });

  it('puts nulls last, whichever way', () => {
    const rows = [[null, '1', '1'], ['b', '1', '1'], ['a', '1', '1']];
    expect(sortRows(rows, COLUMNS, 0, false).map(([name]) => name)).toEqual(['a', 'b', null]);
    expect(sortRows(rows, COLUMNS, 0, true).map(([name]) => name)).toEqual(['b', 'a', null]);
  });
});

it('copies rows as a spreadsheet takes them', () => {
  expect(toClipboard(COLUMNS.slice(0, 2), [['a\tb\nc', null]])).toBe('country\torders\na b c\t');
});

describe('a chart', () => {
  it('is suggested for numbers only', () => {
    expect(suggestChart(COLUMNS)).toEqual({ x: 0, y: 2, kind: 'bars' });
    expect(suggestChart(COLUMNS.slice(0, 1))).toBeNull();
    expect(suggestChart([{ name: 'tags', type: 'BIGINT[]' }])).toBeNull();
    expect(suggestChart([{ name: 'n', type: 'BIGINT' }, { name: 'day', type: 'DATE' }])).toEqual({ x: 1, y: 0, kind: 'line' });
  });

  it('leaves out what is no number', () => {
    const rows = [['a', null, 'NaN'], ['b', '2', '3']];
    expect(pointsOf(COLUMNS, rows, { x: 0, y: 1, kind: 'bars' }, 10)).toEqual([{ label: 'b', value: 2 }]);
  });

  it('has round numbers at its axis', () => {
    expect(axisOf([3, 97])).toEqual({ low: 0, high: 100, ticks: [0, 25, 50, 75, 100] });
    expect(axisOf([]).ticks.length).toBeGreaterThan(1);
    expect(axisOf([-4]).low).toBe(-4);
  });
});

it('finds the words of a statement', () => {
  expect([...wordsOf('SELECT Größe FROM shop.orders')]).toEqual(['select', 'größe', 'from', 'shop', 'orders']);
});
