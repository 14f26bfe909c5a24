import { describe, expect, it } from 'vitest';

import type { ColumnStatistics } from '../api/types';
import { distinctOf, endOf, nullsOf, sizeOf } from './column-statistics';

const COLUMN: ColumnStatistics = {
  id: 1, name: 'amount', type: 'long', required: false, comment: null, labels: [], nulls: 1200, counted_rows: 5000, nulls_are: 'exact', lower: '1', upper: '9', range_is: 'exact', bytes: 10,
  distinct: null, distinct_snapshot_id: null, distinct_is_current: false,
};

describe('figures of a column', () => {
  it('are plain if they are exact', () => {
    expect(nullsOf(COLUMN)).toEqual({ text: '1,200', note: null });
    expect(endOf(COLUMN, 'upper')).toEqual({ text: '9', note: null });
  });

  it('have a sign and a reason if they are not', () => {
    const bound: ColumnStatistics = { ...COLUMN, nulls_are: 'bound', range_is: 'bound' };
    expect([nullsOf(bound).text, endOf(bound, 'lower').text, endOf(bound, 'upper').text]).toEqual(['≤ 1,200', '≥ 1', '≤ 9']);
    const partial: ColumnStatistics = { ...COLUMN, nulls_are: 'partial', range_is: 'partial' };
    expect([nullsOf(partial).text, endOf(partial, 'lower').text]).toEqual(['~ 1,200', '~ 1']);
    expect(nullsOf(partial).note).toContain('5,000 rows');
  });

  it('are missing where nobody has counted', () => {
    expect([nullsOf({ ...COLUMN, nulls: null }).text, endOf({ ...COLUMN, lower: null }, 'lower').text, distinctOf(COLUMN).text]).toEqual(['–', '–', '–']);
    expect([sizeOf(COLUMN).text, sizeOf({ ...COLUMN, bytes: null }).text]).toEqual(['10 B', '–']);
    expect(distinctOf({ ...COLUMN, distinct: 7 })).toEqual({ text: '~ 7', note: 'Estimated for an earlier snapshot.' });
  });
});
