import { describe, expect, it } from 'vitest';

import { firn } from './terminal';

const HOME = 'http://127.0.0.1:8630';

describe('the command of a terminal', () => {
  it('has options with and without a value, and leaves out those that are not set', () => {
    const options = { catalog: 'lake', purge: true, 'dry-run': false, reason: null, name: '', 'stop-after': 3, kind: ['merge', 'expire'] };
    expect(firn('table drop', ['db.orders'], options, HOME)).toBe('firn table drop db.orders --catalog lake --purge --stop-after 3 --kind merge --kind expire');
  });

  it('names another server than the one of this machine', () => {
    expect(firn('job cancel', ['7'], {}, 'https://firn.example.com')).toBe('firn job cancel 7 --server https://firn.example.com');
  });

  it('runs nothing that a name holds', () => {
    expect(firn('user drop', [`a'; rm -rf / #`], { reason: '$(id) `id`' }, HOME)).toBe(`firn user drop 'a'\\''; rm -rf / #' --reason '$(id) \`id\`'`);
  });

  it('takes a name that begins with a dash for a name', () => {
    expect(firn('table drop-ref', ['db.t', '--json'], {}, HOME)).toBe('firn table drop-ref -- db.t --json');
  });

  it('quotes an empty name', () => {
    expect(firn('user drop', [''], {}, HOME)).toBe(`firn user drop ''`);
  });
});
