import { expect, test } from 'vitest';

import { channelLabel, kindLabel, recipientsOf } from './notifications';

test('kinds and channels of a newer server show their names', () => {
  expect(kindLabel('job_failed')).toBe('Failed jobs');
  expect(kindLabel('disk_full')).toBe('disk full');
  expect(channelLabel('pager')).toBe('pager');
});

test('recipients are separated by commas, semicolons and spaces', () => {
  expect(recipientsOf(' ann@example.com, bob@example.com;\ncy@example.com ')).toEqual(['ann@example.com', 'bob@example.com', 'cy@example.com']);
  expect(recipientsOf(' ')).toEqual([]);
});
