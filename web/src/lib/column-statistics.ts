/** Figures of columns: how they are shown, and what their signs mean. */
import type { ColumnStatistics } from '../api/types';
import { bytes as formatBytes } from './format';

export interface Figure {
  text: string;
  /** Why it is not exact; shown on hover. */
  note: string | null;
}

const MISSING: Figure = { text: '–', note: 'The files do not tell.' };
const PARTIAL = 'Some rows are not counted.';

export function nullsOf({ nulls, nulls_are: certainty, counted_rows: counted }: ColumnStatistics): Figure {
  if (nulls === null) return MISSING;
  const text = nulls.toLocaleString('en');
  if (certainty === 'exact') return { text, note: null };
  if (certainty === 'bound') return { text: `≤ ${text}`, note: 'At most: some of these rows are deleted or replaced.' };
  return { text: `~ ${text}`, note: `${PARTIAL} Files with ${counted.toLocaleString('en')} rows count nulls of this column.` };
}

export function endOf(column: ColumnStatistics, end: 'lower' | 'upper'): Figure {
  const text = column[end];
  if (text === null) return MISSING;
  if (column.range_is === 'exact') return { text, note: null };
  if (column.range_is === 'bound') return { text: `${end === 'lower' ? '≥' : '≤'} ${text}`, note: 'A bound: no value is outside of it. Long texts are cut, and rows with this value may be deleted or replaced.' };
  return { text: `~ ${text}`, note: `${PARTIAL} There may be values outside of it.` };
}

export function sizeOf({ bytes }: ColumnStatistics): Figure {
  return bytes === null ? { text: '–', note: 'The files do not tell: ORC and Avro files have no sizes of columns, and files lack the columns of partitions.' } : { text: formatBytes(bytes), note: 'Compressed, in the files.' };
}

export function distinctOf({ distinct, distinct_is_current: isCurrent }: ColumnStatistics): Figure {
  if (distinct === null) return { text: '–', note: 'Nobody has counted them: run “Update statistics”.' };
  return { text: `~ ${distinct.toLocaleString('en')}`, note: isCurrent ? 'Estimated.' : 'Estimated for an earlier snapshot.' };
}
