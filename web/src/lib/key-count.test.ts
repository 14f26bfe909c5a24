import { expect, test } from 'vitest';

import { countOf } from './key-count';

test('only a finished count has numbers', () => {
  const counted = { counted: true, rows: 5, null_rows: 0, keys: 1, surplus_rows: 2, listed_at: '', changed_meanwhile: 0, sample: [] };
  expect(countOf({ uniqueness: counted })).toEqual(counted);
  expect(countOf({ uniqueness: { counted: false, reason: 'too large' } })).toBeNull();
  expect(countOf({})).toBeNull();
});
