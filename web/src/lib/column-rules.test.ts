import { describe, expect, it } from 'vitest';

import { readColumnRules } from './column-rules';

describe('rules of columns', () => {
  it('are told in words, also of columns with dots and of rules that came later', () => {
    const rules = readColumnRules({ 'firn.column.a.b.rule': 'last-not-null', 'firn.column.n.rule': 'median', 'firn.partial': 'true' });
    expect([...rules]).toEqual([
      ['a.b', 'last value that is not null'],
      ['n', 'median'],
    ]);
  });

  it('name the group and what orders it, whether its columns name the sequence field or not', () => {
    const mail = { 'firn.group.mail.columns': 'email, email_at', 'firn.group.mail.sequence-field': 'email_at' };
    const address = { 'firn.group.to.columns': 'city,zip', 'firn.group.to.sequence-field': 'moved' };
    expect([...readColumnRules({ ...mail, ...address })]).toEqual([
      ['email', 'newest by email_at (group mail)'],
      ['email_at', 'orders group mail'],
      ['city', 'newest by moved (group to)'],
      ['zip', 'newest by moved (group to)'],
      ['moved', 'orders group to'],
    ]);
  });

  it('are none of a group without a sequence field', () => {
    expect(readColumnRules({ 'firn.group.mail.columns': 'email' }).size).toBe(0);
  });
});
