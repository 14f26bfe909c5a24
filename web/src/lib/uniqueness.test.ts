import { expect, it } from 'vitest';

import { keysInWords, keyText } from './uniqueness';

const none = { keys: 0, surplus_rows: 0, removed_rows: 0, moved: false };

it('keys that nobody has counted are not said to be unique', () => {
  expect(keysInWords(null)).toEqual({ says: 'not counted', warns: false });
});

it('a count is told as it was found, and that base has moved since', () => {
  expect(keysInWords(none)).toEqual({ says: 'unique', warns: false });
  expect(keysInWords({ ...none, moved: true }).note).toBe('base has moved since');
  expect(keysInWords({ ...none, removed_rows: 4 })).toEqual({ says: 'unique', note: '4 rows were taken away', warns: false });
});

it('repeated keys warn', () => {
  const found = keysInWords({ ...none, keys: 37, surplus_rows: 1, moved: true });
  expect(found).toEqual({ says: '37 keys occur more than once', note: '1 row too many; base has moved since', warns: true });
  expect(keysInWords({ ...none, keys: 1, surplus_rows: 2 }).says).toBe('1 key occurs more than once');
});

it('a key of several columns names them', () => {
  expect(keyText({ id: '7', day: '2026-11-21' })).toBe('id=7, day=2026-11-21');
});
