import { expect, it } from 'vitest';

import { pieces } from './words';

it('what is to be typed is told from the sentence around it', () => {
  expect(pieces('see `firn hive list` first')).toEqual([
    { text: 'see ', code: false },
    { text: 'firn hive list', code: true },
    { text: ' first', code: false },
  ]);
  expect(pieces('`a` or `b`').filter(({ code }) => code).map(({ text }) => text)).toEqual(['a', 'b']);
});

it('a sentence without any stays as it is, and so does a backtick that is alone', () => {
  expect(pieces('nothing is to be done')).toEqual([{ text: 'nothing is to be done', code: false }]);
  expect(pieces('')).toEqual([]);
  expect(pieces('a ` b')).toEqual([{ text: 'a ` b', code: false }]);
  expect(pieces('`x` and a ` b')).toEqual([
    { text: 'x', code: true },
    { text: ' and a ` b', code: false },
  ]);
});
