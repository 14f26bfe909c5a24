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
  expect(filterFrom(address('failed=true&size=unheard&rows=<b>&written=no&partitions=constructor'))).toEqual({ failed: true });
  const now = Date.parse('2026-11-29T11:00:00Z');
  expect(filterFrom(address('format=orc&writer=etl&partitions=none&rows=few&written=old'), now)).toEqual({
    format: 'orc',
    writer: 'etl',
    partitioned: false,
    max_rows: 1e6,
    written_before: '2026-08-31T00:00:00Z',
  });
  expect(filterFrom(address('written=month'), now)).toEqual({ written_since: '2026-10-30T00:00:00Z' });
});

test('a share of nothing is nothing', () => {
  const found = { tables: 0, bytes: 0, rows: 0, unknown_size: 0, checked: 0, published: 0, states: [], blockers: [] };
  expect(shareOf(found, 'upgraded')).toBe(0);
  const states = [{ state: 'upgraded' as const, tables: 1, bytes: 0, rows: 0 }];
  expect(shareOf({ ...found, tables: 4, states }, 'upgraded')).toBe(25);
});
