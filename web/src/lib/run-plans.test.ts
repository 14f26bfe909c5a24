import { expect, test } from 'vitest';

import type { InputPlan } from '../api/types';
import { plannedChanges } from './run-plans';

const input = (some: Partial<InputPlan>): InputPlan => ({ table: 'raw.trip', is_changed: true, terms: [], total_bytes: 2048, ...some });

test.each([
  [{ commits: 2, files: 1, bytes: 1024, rows: 30 }, '2 commits (1 file, 1 KiB, 30 rows)'],
  [{}, 'changed'],
  [{ is_changed: false, commits: 0 }, 'not changed'],
  [{ is_changed: null }, 'all 2 KiB'],
  [{ total_bytes: null }, 'does not exist'],
] as const)('changes of an input: %j', (some, text) => {
  expect(plannedChanges(input(some))).toBe(text);
});
