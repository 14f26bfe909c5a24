import { describe, expect, it } from 'vitest';

import { cellOf, inOrder, warmth } from './heat';

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
  it('tells something from nothing and the largest from the rest', () => {
    expect([0, 1, 100, 450, 1000].map((value) => warmth(value, 1000))).toEqual([0, 1, 2, 3, 4]);
  });
});
