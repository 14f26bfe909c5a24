import { describe, expect, it } from 'vitest';

import { EMPTY, matchesPattern, missingIn, newRule, requestOf, ruleOf, suggestRules, withType, type Draft } from './cdc';

const draft: Draft = { ...EMPTY, connection: 'main of shop', topics: ['shop.*'], format: 'debezium-json', rules: [newRule(0, ' shop.* ', 'lake.\\1')] };

describe('the draft of a sync file', () => {
  it('matches names as the server does', () => {
    expect(matchesPattern('shop.orders', 'shop.*')).toBe(true);
    expect(matchesPattern('shopxorders', 'shop.*')).toBe(false);
    expect(matchesPattern('a(b)', 'a(b)')).toBe(true);
    expect(matchesPattern('xshop.orders', 'shop.*')).toBe(false);
    expect(matchesPattern('shop_eu.c', 'shop_*.*')).toBe(true);
  });

  it('suggests a rule for each database', () => {
    expect(suggestRules(['shop.orders', 'shop.items', 'db.public.x', 'my-db.y']).map(({ include, table }) => [include, table])).toEqual([
      ['shop.*', 'shop.\\1'],
      ['db.public.*', 'public.\\1'],
      ['my-db.*', 'my_db.\\1'],
    ]);
    expect(suggestRules(['table'])).toEqual([]);
  });

  it('says what is missing', () => {
    expect(missingIn(EMPTY)).toContain('connection');
    expect(missingIn({ ...draft, rules: [newRule(0, 'a')] })).toContain('Each rule');
    expect(missingIn(draft)).toBeNull();
    expect(requestOf(EMPTY)).toBeUndefined();
  });

  it('becomes a request', () => {
    const keyed = { ...draft, rules: [{ ...newRule(0, ' shop.* ', 'lake.\\1'), key: 'id, shard ,', source: ' src ' }] };
    expect(requestOf(keyed)).toMatchObject({
      name: 'main-of-shop',
      tables: [{ include: 'shop.*', exclude: null, primary_key: ['id', 'shard'], source_column: 'src', columns: {} }],
    });
  });

  it('keeps the types of the first rule that takes a table', () => {
    const rules = [{ ...newRule(4, 'shop.*', 'x.y'), exclude: 'shop.a*' }, newRule(7, '*', 'z.y')];
    expect(ruleOf(rules, 'shop.orders')?.id).toBe(4);
    expect(ruleOf(rules, 'shop.audit')?.id).toBe(7);
    const typed = withType({ ...draft, rules }, 7, 'amount', 'date');
    expect(typed.rules[1]?.columns).toEqual({ amount: 'date' });
    expect(withType(typed, 7, 'amount', '').rules[1]?.columns).toEqual({});
  });
});
