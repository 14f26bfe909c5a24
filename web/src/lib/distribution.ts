/** What a distribution says in words, and what its chart and its table show. */
import type { Distribution } from '../api/types';
import { exact, many } from './format';

export interface Slice {
  /** Its place: long values that are cut may look the same. */
  id: number;
  label: string;
  rows: number;
  /** Whether the label is a value, and not a word of the console's. */
  isValue: boolean;
}

/** The bars, or the frequent values and then the others. */
export function slicesOf({ kind, bars, values, other_rows: others }: Distribution): Slice[] {
  if (kind === 'bars') return bars.map(({ lower, upper, rows }, id) => ({ id, label: lower === upper ? lower : `${lower} – ${upper}`, rows, isValue: true }));
  const slices = values.map(({ value, rows }, id) => (value === '' ? { id, label: 'empty text', rows, isValue: false } : { id, label: value, rows, isValue: true }));
  return others > 0 && slices.length > 0 ? [...slices, { id: slices.length, label: 'others', rows: others, isValue: false }] : slices;
}

/** The part of the rows that have a value; nulls are counted beside. */
export function shareOf(rows: number, { rows: all, nulls }: Distribution): string {
  const share = (100 * rows) / Math.max(1, all - nulls);
  if (rows === 0) return '0 %';
  return share < 0.1 ? '< 0.1 %' : `${share.toFixed(1)} %`;
}

/** Facts beside the chart, those that say nothing left out. */
export function factsOf(distribution: Distribution): { name: string; value: string }[] {
  const { rows, nulls, nans, infinite, different, different_is_exact: isExact, smallest, largest } = distribution;
  return [
    { name: 'Rows', value: exact(rows) },
    { name: 'Nulls', value: exact(nulls) },
    { name: 'NaN', value: nans === 0 ? '' : exact(nans) },
    { name: 'Infinite', value: infinite === 0 ? '' : exact(infinite) },
    { name: 'Different values', value: `${isExact ? '' : '~ '}${exact(different)}` },
    { name: 'Smallest', value: smallest ?? '' },
    { name: 'Largest', value: largest ?? '' },
  ].filter(({ value }) => value !== '');
}

/** Why there is nothing to draw; null if there is. */
export function whyEmpty(distribution: Distribution): { title: string; text: string } | null {
  if (distribution.rows === 0) return { title: 'The table has no rows', text: '' };
  if (distribution.nulls === distribution.rows) return { title: 'All values are null', text: many(distribution.rows, 'row') };
  if (slicesOf(distribution).length === 0) return { title: 'Too many different values', text: 'The engine holds all of them in memory to find the frequent ones, so it counts a million at most.' };
  return null;
}

/** The chart in a sentence, for people who hear it. */
export function describeDistribution(distribution: Distribution): string {
  const slices = slicesOf(distribution);
  const [most] = slices.toSorted((first, second) => second.rows - first.rows);
  return `${distribution.column}: ${many(slices.length, 'bar')}${most === undefined ? '' : `, most rows in ${most.label}: ${exact(most.rows)}`}`;
}
