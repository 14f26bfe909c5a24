import { expect, it } from 'vitest';

import { kindsOf } from './job-kinds';

it('a table takes the kinds that it can or could take, and nothing that is no job', () => {
  const table = { allowed_actions: ['expire', 'rewrite', 'drop', 'tag', 'sync'], unavailable_actions: { 'rewrite-deletes': 'a job is active', branch: 'no' } };
  expect(kindsOf(table)).toEqual({ first: ['rewrite', 'expire'], more: ['rewrite-deletes'] });
});
