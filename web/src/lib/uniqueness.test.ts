import { expect, it } from 'vitest';

import { describeKeys, keyText } from './uniqueness';

const none = { keys: 0, surplus_rows: 0, removed_rows: 0, moved: false };

it('keys that nobody has counted are not said to be unique', () => {
  expect(describeKeys(null)).toEqual({ says: 'Uniqueness: not checked', warns: false });
});

it('a count is told as it was found, and that base has moved since', () => {
  expect(describeKeys(none)).toEqual({ says: 'unique', warns: false });
  expect(describeKeys({ ...none, moved: true }).note).toBe('base has moved since');
  expect(describeKeys({ ...none, removed_rows: 4 })).toEqual({ says: 'unique', note: '4 rows removed', warns: false });
});

it('repeated keys warn', () => {
  const found = describeKeys({ ...none, keys: 37, surplus_rows: 1, moved: true });
  expect(found).toEqual({ says: '37 keys occur more than once', note: '1 duplicate row; base has moved since', warns: true });
  expect(describeKeys({ ...none, keys: 1, surplus_rows: 2 }).says).toBe('1 key occurs more than once');
});

it('a key of several columns names them', () => {
  expect(keyText({ id: '7', day: '2026-11-21' })).toBe('id=7, day=2026-11-21');
});
