/** What Home says of a catalog at a glance. Nothing here knows React. */
import type { Summary } from '../api/types';
import { changeText } from './trends';

export interface Part {
  key: string;
  label: string;
  tables: number;
}

/** A value now against a week ago: "+4.3% in 7 days"; nothing while there was no sample then. */
export function weekly(now: number | null | undefined, before: number | null | undefined): string {
  if (now === null || now === undefined || before === null || before === undefined) return '';
  return `${changeText(before, now)} in 7 days`;
}

/** The average health now against a week ago, in points: percents of a score say little. */
export function weeklyHealth(now: number | null | undefined, before: number | null | undefined): string {
  if (now === null || now === undefined || before === null || before === undefined) return '';
  const points = Math.round(now) - Math.round(before);
  return points === 0 ? 'unchanged in 7 days' : `${points > 0 ? '+' : '−'}${Math.abs(points)} in 7 days`;
}

/** The tables by the age of their last write; each table counts once. */
export function freshnessOf(fresh: NonNullable<Summary['freshness']>): Part[] {
  return [
    { key: 'hour', label: 'in the last hour', tables: fresh.within_hour },
    { key: 'day', label: 'in the last day', tables: fresh.within_day - fresh.within_hour },
    { key: 'week', label: 'in the last week', tables: fresh.within_week - fresh.within_day },
    { key: 'older', label: 'before', tables: fresh.older },
  ];
}

export const GRADES = [
  { key: 'good', label: 'good, 80 or more' },
  { key: 'fair', label: 'fair, 50 to 79' },
  { key: 'poor', label: 'poor, below 50' },
];

/**
 * The points of a small line between the lowest and the highest value, for an SVG of this size; gaps are left out. The
 * whole height stands for at least `least`, so that a small change does not look like a large one.
 */
export function tracePoints(values: readonly (number | null)[], width: number, height: number, least = 0): string {
  const known = values.flatMap((value, index) => (value === null ? [] : [{ index, value }]));
  const low = Math.min(...known.map(({ value }) => value));
  const high = Math.max(...known.map(({ value }) => value));
  const x = (index: number) => (values.length < 2 ? 0 : (index / (values.length - 1)) * width);
  const range = Math.max(high - low, least);
  const margin = (range - (high - low)) / 2;
  const y = (value: number) => (range === 0 ? height / 2 : (1 - (value - low + margin) / range) * height);
  return known.map(({ index, value }) => `${x(index).toFixed(1)},${y(value).toFixed(1)}`).join(' ');
}
