/** What is known of a keyed table's keys, in words. Nothing here knows React. */
import type { Table } from '../api/types';
import { count, many } from './format';

type Found = NonNullable<Table['keys']>;

/** "unique", "37 keys occur more than once", and whether a person should look. */
export function describeKeys(keys: Pick<Found, 'keys' | 'surplus_rows' | 'removed_rows' | 'moved'> | null): { says: string; note?: string; warns: boolean } {
  if (keys === null) return { says: 'Uniqueness: not checked', warns: false };
  const since = keys.moved ? 'base has moved since' : undefined;
  if (keys.keys > 0) {
    const says = keys.keys === 1 ? '1 key occurs more than once' : `${count(keys.keys)} keys occur more than once`;
    return { says, note: [many(keys.surplus_rows, 'duplicate row'), since].filter(Boolean).join('; '), warns: true };
  }
  const removed = keys.removed_rows > 0 ? `${many(keys.removed_rows, 'row')} removed` : undefined;
  const note = [removed, since].filter(Boolean).join('; ');
  return { says: 'unique', ...(note === '' ? {} : { note }), warns: false };
}

/** A key of one or several columns: "id=7, day=2026-11-21". */
export function keyText(key: Readonly<Record<string, string>>): string {
  return Object.entries(key)
    .map(([name, value]) => `${name}=${value}`)
    .join(', ');
}
