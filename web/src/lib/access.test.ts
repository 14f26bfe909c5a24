import { describe, expect, it } from 'vitest';

import { grantText, has, holds, impliedBy, PRIVILEGES, scopeOf, scopeText, SERVER } from './access';

const SALES = scopeOf('lake', ['sales']);
const ORDERS = scopeOf('lake', ['sales'], 'orders');

describe('what one may do', () => {
  it('holds for all that lies in what it was granted on', () => {
    expect(holds(SERVER, ORDERS)).toBe(true);
    expect(holds(scopeOf('lake'), ORDERS)).toBe(true);
    expect(holds(SALES, scopeOf('lake', ['sales', 'eu'], 't'))).toBe(true);
    expect(holds(ORDERS, ORDERS)).toBe(true);
  });

  it('holds for nothing beside or above it', () => {
    expect(holds(ORDERS, SALES)).toBe(false);
    expect(holds(SALES, scopeOf('lake', ['sale'], 'orders'))).toBe(false);
    expect(holds(SALES, scopeOf('other', ['sales']))).toBe(false);
    expect(holds(scopeOf('lake', ['a'], 't'), scopeOf('lake', ['a', 'b'], 't'))).toBe(false);
  });

  it('includes what a privilege brings along, and no more', () => {
    const grants = [{ on: SALES, privileges: ['write'] }];
    expect(has(grants, { privilege: 'read', on: ORDERS })).toBe(true);
    expect(has(grants, { privilege: 'drop', on: ORDERS })).toBe(false);
    expect(has([], { privilege: 'list', on: ORDERS })).toBe(false);
  });

  it('says where a privilege comes from', () => {
    const grants = [{ on: scopeOf('lake'), privileges: ['maintain'] }, { on: SALES, privileges: ['write'] }];
    expect(impliedBy(grants, { privilege: 'read', on: SALES })).toBe('comes with write');
    expect(impliedBy(grants, { privilege: 'maintain', on: SALES })).toBe('from lake');
    expect(impliedBy(grants, { privilege: 'grant', on: SALES })).toBeNull();
  });

  it('is told in a line', () => {
    expect(grantText({ on: SALES, privileges: ['list', 'read', 'write'] })).toBe('write on lake.sales');
    expect(grantText({ on: SERVER, privileges: [...PRIVILEGES] })).toBe('everything on the server');
    expect(scopeText(scopeOf('lake', ['a.b'], 't'))).toBe('lake.`a.b`.t');
  });
});
