/** Rows of a run that waits for approval, before and after its commit. Nothing here knows React. */
import type { SampledRow } from '../api/types';

export function changeOf({ before, after }: SampledRow): 'new' | 'changed' | 'deleted' {
  if (before === null) return 'new';
  return after === null ? 'deleted' : 'changed';
}

/** The columns of all rows, in the order of the table. */
export function columnsOf(rows: readonly SampledRow[]): string[] {
  return [...new Set(rows.flatMap((row) => Object.keys(row.after ?? row.before ?? {})))];
}
