import { describe, expect, it } from 'vitest';

import type { Distribution } from '../api/types';
import { describeDistribution, factsOf, shareOf, slicesOf, whyEmpty } from './distribution';

const COUNTED: Distribution = {
  column: 'amount',
  type: 'double',
  kind: 'bars',
  rows: 1_010,
  nulls: 10,
  nans: 0,
  infinite: 0,
  different: 900,
  different_is_exact: false,
  smallest: '0.0',
  largest: '10.0',
  bars: [
    { lower: '0', upper: '5', rows: 999 },
    { lower: '5', upper: '5', rows: 1 },
  ],
  values: [],
  other_rows: 0,
};
const VALUES: Distribution = { ...COUNTED, kind: 'values', bars: [], values: [{ value: 'a', rows: 600 }, { value: '', rows: 300 }], other_rows: 100 };

describe('slicesOf', () => {
  it('names ranges, and single values by themselves', () => {
    expect(slicesOf(COUNTED).map(({ label }) => label)).toEqual(['0 – 5', '5']);
  });

  it('tells empty texts and others from values of these names', () => {
    const slices = slicesOf({ ...VALUES, values: [{ value: 'others', rows: 1 }, { value: '', rows: 1 }] });
    expect(slices.map(({ label, isValue }) => [label, isValue])).toEqual([['others', true], ['empty text', false], ['others', false]]);
  });

  it('has no others without values', () => {
    expect(slicesOf({ ...VALUES, values: [], other_rows: 1_000 })).toEqual([]);
  });
});

describe('what is said of a distribution', () => {
  it('is the share of the rows with a value', () => {
    expect([1_000, 999, 1, 0].map((rows) => shareOf(rows, COUNTED))).toEqual(['100.0 %', '99.9 %', '0.1 %', '0 %']);
    expect(shareOf(1, { ...COUNTED, rows: 1_000_000 })).toBe('< 0.1 %');
  });

  it('is a fact only if it says something', () => {
    expect(factsOf(COUNTED).map(({ name }) => name)).toEqual(['Rows', 'Nulls', 'Different values', 'Smallest', 'Largest']);
    expect(factsOf({ ...COUNTED, nans: 2, infinite: 1, smallest: null, largest: null }).map(({ name }) => name)).toEqual(['Rows', 'Nulls', 'NaN', 'Infinite', 'Different values']);
    expect(factsOf(COUNTED)).toContainEqual({ name: 'Different values', value: '~ 900' });
  });

  it('is a sentence for who cannot see the chart', () => {
    expect(describeDistribution(COUNTED)).toBe('amount: 2 bars, most rows in 0 – 5: 999');
  });

  it('is why there is nothing to draw', () => {
    expect(whyEmpty(COUNTED)).toBeNull();
    expect(whyEmpty({ ...VALUES, rows: 0, nulls: 0 })?.title).toBe('The table has no rows');
    expect(whyEmpty({ ...VALUES, rows: 5, nulls: 5 })?.title).toBe('All values are null');
    expect(whyEmpty({ ...VALUES, values: [] })?.title).toBe('Too many different values');
  });
});
