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

export function shareOf(found: Migration, state: MigrationState): number {
  const count = found.states.find((item) => item.state === state)?.tables ?? 0;
  return found.tables === 0 ? 0 : (100 * count) / found.tables;
}

/** The filter that the address has. */
export function filterFrom(get: (key: string) => string | undefined): HiveFilter {
  const filter: HiveFilter = {};
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
