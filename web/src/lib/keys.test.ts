import { expect, test } from 'vitest';

import { keysFrom, keysText } from './keys';

test('keys of several tables come back from an address', () => {
  const keys = { 'sales.orders': ['id', 'day'], 'sales.odd': ['a=b', 'c,d;e'] };
  expect(keysFrom(keysText(keys))).toEqual(keys);
});

test('a table without a key is not among them', () => {
  expect(keysText({ 'sales.orders': [] })).toBe('');
  expect(keysFrom(undefined)).toEqual({});
});
