import { describe, expect, it } from 'vitest';

import { isFavourite, MOST_FAVOURITES, notStarred, toggleFavourite } from './favourites';
import { readTables } from './search';

const ORDERS = { catalog: 'lake', table: 'shop.orders' };
const OTHERS = { catalog: 'other', table: 'shop.orders' };

describe('favourites', () => {
  it('are set and taken off, each catalog for itself', () => {
    const starred = toggleFavourite([], ORDERS);
    expect(isFavourite(starred, ORDERS)).toBe(true);
    expect(isFavourite(starred, OTHERS)).toBe(false);
    expect(toggleFavourite(starred, ORDERS)).toEqual([]);
    expect(toggleFavourite(starred, OTHERS)).toEqual([ORDERS, OTHERS]);
  });

  it('make room for new ones', () => {
    const many = Array.from({ length: MOST_FAVOURITES }, (_, index) => ({ catalog: 'lake', table: `a.t${index}` }));
    const after = toggleFavourite(many, ORDERS);
    expect(after).toHaveLength(MOST_FAVOURITES);
    expect(after[0]).toEqual({ catalog: 'lake', table: 'a.t1' });
    expect(after.at(-1)).toEqual(ORDERS);
  });

  it('are not repeated among the recently viewed', () => {
    expect(notStarred([ORDERS, OTHERS], [ORDERS])).toEqual([OTHERS]);
  });

  it('survive what else is in the storage', () => {
    expect(readTables('{"catalog": 1}')).toEqual([]);
    expect(readTables('nonsense')).toEqual([]);
    expect(readTables(null)).toEqual([]);
    expect(readTables(JSON.stringify([ORDERS, { catalog: 'lake' }, null, 7, { ...OTHERS, more: 'x' }]))).toEqual([ORDERS, OTHERS]);
  });
});
