/** The migration page in words and numbers: its states, sizes, and the filter in the address. */
import type { HiveFilter } from '../api/hive-queries';
import type { HiveState, Migration } from '../api/types';

type MigrationState = Migration['states'][number]['state'];

export const MIGRATION_STATES: { state: MigrationState; label: string; show: Record<string, string> }[] = [
  { state: 'upgraded', label: 'Upgraded', show: { state: 'upgraded' } },
  { state: 'upgrading', label: 'Upgrading', show: { state: 'upgrading' } },
  { state: 'eligible', label: 'Eligible', show: { state: 'hive' } },
  { state: 'blocked', label: 'Blocked', show: { state: 'blocked' } },
  { state: 'failed', label: 'Failed', show: { failed: 'true' } },
];

const GB = 1e9;
export const SIZES: { value: string; label: string; min?: number; max?: number }[] = [
  { value: '', label: 'Any size' },
  { value: 'small', label: 'Up to 1 GB', max: GB },
  { value: 'medium', label: '1 to 100 GB', min: GB, max: 100 * GB },
  { value: 'large', label: 'Over 100 GB', min: 100 * GB },
];

export interface Range {
  value: string;
  label: string;
  filter: HiveFilter;
}

export const PARTITIONS: Range[] = [
  { value: '', label: 'Any number', filter: {} },
  { value: 'none', label: 'Not partitioned', filter: { partitioned: false } },
  { value: 'some', label: 'Partitioned', filter: { partitioned: true } },
  { value: 'many', label: 'From 1,000', filter: { min_partitions: 1000 } },
];

export const ROWS: Range[] = [
  { value: '', label: 'Any number', filter: {} },
  { value: 'few', label: 'Up to 1 million', filter: { max_rows: 1e6 } },
  { value: 'many', label: '1 million to 1 billion', filter: { min_rows: 1e6, max_rows: 1e9 } },
  { value: 'most', label: 'From 1 billion', filter: { min_rows: 1e9 } },
];

const DAY_MS = 86_400_000;
export const LAST_WRITES: { value: string; label: string; since?: number; before?: number }[] = [
  { value: '', label: 'At any time' },
  { value: 'month', label: 'In the last 30 days', since: 30 },
  { value: 'old', label: 'Not for 90 days', before: 90 },
  { value: 'oldest', label: 'Not for a year', before: 365 },
];

/** In whole days, so that the filter stays the same while the page is open. */
function writtenFilter(chosen: string | undefined, now: number): HiveFilter {
  const day = (days: number) => `${new Date(now - days * DAY_MS).toISOString().slice(0, 10)}T00:00:00Z`;
  const range = LAST_WRITES.find(({ value }) => value === chosen);
  if (range?.since !== undefined) return { written_since: day(range.since) };
  if (range?.before !== undefined) return { written_before: day(range.before) };
  return {};
}

/** Those filters of the address that stand behind one button. */
export const FURTHER = ['format', 'writer', 'partitions', 'rows', 'written'];

export function shareOf(found: Migration, state: MigrationState): number {
  const count = found.states.find((item) => item.state === state)?.tables ?? 0;
  return found.tables === 0 ? 0 : (100 * count) / found.tables;
}

/** The filter that the address has. */
export function filterFrom(get: (key: string) => string | undefined, now = Date.now()): HiveFilter {
  const chosen = (ranges: Range[], key: string) => ranges.find(({ value }) => value === get(key))?.filter;
  const filter: HiveFilter = { ...chosen(PARTITIONS, 'partitions'), ...chosen(ROWS, 'rows'), ...writtenFilter(get('written'), now) };
  const size = SIZES.find(({ value }) => value === get('size'));
  const texts = { database: get('database'), search: get('search'), blocker: get('blocker'), format: get('format'), writer: get('writer') };
  for (const [key, value] of Object.entries(texts)) if (value !== undefined) filter[key as keyof typeof texts] = value;
  if (get('state') !== undefined) filter.state = get('state') as HiveState;
  if (get('failed') === 'true') filter.failed = true;
  if (get('checked') !== undefined) filter.checked = get('checked') === 'true';
  if (size?.min !== undefined) filter.min_bytes = size.min;
  if (size?.max !== undefined) filter.max_bytes = size.max;
  return filter;
}
