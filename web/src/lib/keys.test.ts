import { expect, test } from 'vitest';

import { keysFrom, keysText, withColumns } from './keys';

test('keys of several tables come back from an address', () => {
  const keys = {
    'sales.orders': { columns: ['id', 'day'], sequence: '' },
    'sales.odd': { columns: ['a=b', 'c,d;e'], sequence: 'f@g;h=i' },
  };
  expect(keysFrom(keysText(keys))).toEqual(keys);
});

test('a table without a key is not among them', () => {
  expect(keysText({ 'sales.orders': { columns: [], sequence: 'day' } })).toBe('');
  expect(keysFrom(undefined)).toEqual({});
});

test('a column of the key is not its sequence field', () => {
  const key = { columns: ['id'], sequence: 'changed' };
  expect(withColumns(key, ['id', 'day']).sequence).toBe('changed');
  expect(withColumns(key, ['id', 'changed']).sequence).toBe('');
  expect(withColumns(key, []).sequence).toBe('');
});
