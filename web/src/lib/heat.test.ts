import { describe, expect, it } from 'vitest';

import { cellOf, inOrder, quartersOf, warmth } from './heat';

describe('cells', () => {
  it('split at the last field', () => {
    expect(cellOf('year=2013/month=1/day=5', 1)).toEqual({ row: 'year=2013/month=1', column: 'day=5', value: 1 });
    expect(cellOf('month=1', 1)).toEqual({ row: '', column: 'month=1', value: 1 });
    expect(cellOf('', 1).column).toBe('whole table');
  });

  it('come in the order of people', () => {
    expect(inOrder(['day=10', 'day=9', 'day=1', 'day=9'])).toEqual(['day=1', 'day=9', 'day=10']);
  });
});

describe('warmth', () => {
  const levels = (values: number[]) => values.map((value) => warmth(value, quartersOf(values)));

  it('is the quarter that a value lies in', () => {
    expect(levels([29, 30, 31, 32, 40, 41, 47, 48])).toEqual([1, 1, 2, 2, 3, 3, 4, 4]);
  });

  it('tells small partitions apart beside a very large one', () => {
    expect(levels([1, 2, 3, 1_000_000])).toEqual([1, 2, 3, 4]);
  });

  it('tells nothing from something, and is the same for equal values', () => {
    expect(levels([0, 7, 0, 7])).toEqual([0, 1, 0, 1]);
    expect(levels([0, 0])).toEqual([0, 0]);
  });
});
