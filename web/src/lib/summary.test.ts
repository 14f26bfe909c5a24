import { expect, test } from 'vitest';

import { freshnessOf, tracePoints, weekly, weeklyHealth } from './summary';

test('a value is told against a week ago, if there was one', () => {
  expect(weekly(110, 100)).toBe('+10% in 7 days');
  expect(weekly(5, 5)).toBe('unchanged in 7 days');
  expect(weekly(110, null)).toBe('');
  expect(weekly(null, 3)).toBe('');
  expect([weeklyHealth(90, 81.6), weeklyHealth(80, 80.2), weeklyHealth(70, 75), weeklyHealth(70, null)]).toEqual(['+8 in 7 days', 'unchanged in 7 days', '−5 in 7 days', '']);
});

test('each table counts in one part of the freshness', () => {
  const parts = freshnessOf({ within_hour: 2, within_day: 5, within_week: 9, older: 3 });
  expect(parts.map(({ tables }) => tables)).toEqual([2, 3, 4, 3]);
});

test('a trace goes from the lowest to the highest value, and leaves gaps out', () => {
  expect(tracePoints([0, null, 10], 100, 20)).toBe('0.0,20.0 100.0,0.0');
  expect(tracePoints([5, 5], 100, 20)).toBe('0.0,10.0 100.0,10.0');
  expect(tracePoints([null], 100, 20)).toBe('');
  expect(tracePoints([99, 100], 100, 20, 20)).toBe('0.0,10.5 100.0,9.5');
  expect(tracePoints([0, 100], 100, 20, 20)).toBe('0.0,20.0 100.0,0.0');
});
