import { expect, test } from 'vitest';

import { filterFrom, shareOf } from './migration';

const address = (text: string) => {
  const params = new URLSearchParams(text);
  return (key: string) => params.get(key) ?? undefined;
};

test('the address is the filter of the server', () => {
  expect(filterFrom(address(''))).toEqual({});
  expect(filterFrom(address('state=hive&database=shop&size=medium&checked=false'))).toEqual({
    state: 'hive',
    database: 'shop',
    checked: false,
    min_bytes: 1e9,
    max_bytes: 1e11,
  });
  expect(filterFrom(address('failed=true&size=unheard'))).toEqual({ failed: true });
});

test('a share of nothing is nothing', () => {
  const found = { tables: 0, bytes: 0, rows: 0, unknown_size: 0, checked: 0, published: 0, states: [], blockers: [] };
  expect(shareOf(found, 'upgraded')).toBe(0);
  const states = [{ state: 'upgraded' as const, tables: 1, bytes: 0, rows: 0 }];
  expect(shareOf({ ...found, tables: 4, states }, 'upgraded')).toBe(25);
});
