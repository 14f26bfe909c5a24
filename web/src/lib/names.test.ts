import { describe, expect, it } from 'vitest';

import { dotted, partsOf, sqlName } from './names';
import { fullName, paths, split } from './paths';

const ODD: readonly string[][] = [
  ['db', 'orders'],
  ['a.b', 'c'],
  ['a/b', 'x y', 'ünïcode'],
  ['`', '``', '.`.', 'a`b'],
  ['..a', 'b..'],
];

describe('names', () => {
  it('are as ever where nothing has to be quoted', () => {
    expect(dotted(['db', 'my orders', 'ä/b'])).toBe('db.my orders.ä/b');
  });

  it.each(ODD)('parse to what they were made of: %s %s', (...parts) => {
    expect(partsOf(dotted(parts))).toEqual(parts);
  });

  it.each(['', '.', 'a.', '.a', 'a..b', 'a`b', '`a', '``', '`a`b'])('that are none are one part: %s', (text) => {
    expect(partsOf(text)).toEqual([text]);
  });

  it('are quoted in SQL where it would read them otherwise', () => {
    expect(sqlName(['lake', 'my db', '1st', 'a.b', 'orders'])).toBe('lake.`my db`.`1st`.`a.b`.orders');
  });

  it('of tables come from rows and go into links and back', () => {
    const row = { namespace: dotted(['eu.west', 'sales']), name: 'q/1.x' };
    expect(fullName(row)).toBe('`eu.west`.sales.`q/1.x`');
    expect(split(fullName(row))).toEqual({ namespace: '`eu.west`.sales', name: 'q/1.x' });
    expect(paths.table('lake', fullName(row))).toBe('/c/lake/tables/%60eu.west%60.sales.%60q%2F1.x%60');
  });
});
