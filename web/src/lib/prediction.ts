/** What a job changes about a table: predicted before it, gained after it, under the same keys. */
import { bytes, count, span } from './format';

const QUANTITIES = [
  { key: 'files', name: 'data files', show: count },
  { key: 'bytes', name: 'read by a full scan', show: bytes },
  { key: 'deletes', name: 'delete files', show: count },
] as const;

export interface Change {
  key: string;
  name: string;
  before: string;
  after: string;
  changes: boolean;
}

/** The quantities that are told, before and after. */
export function changesOf(figures: Readonly<Record<string, unknown>>): Change[] {
  return QUANTITIES.flatMap(({ key, name, show }) => {
    const before = figures[`${key}_before`];
    const after = figures[`${key}_after`];
    if (typeof before !== 'number' || typeof after !== 'number') return [];
    return [{ key, name, before: show(before), after: show(after), changes: before !== after }];
  });
}

/** "1,000 → 12 data files, in about 12 s"; '' when nothing would change. */
export function gainText(figures: Readonly<Record<string, unknown>>): string {
  const changed = changesOf(figures)
    .filter(({ changes }) => changes)
    .map(({ name, before, after }) => `${before} → ${after} ${name}`);
  if (changed.length === 0) return '';
  const { seconds } = figures;
  return typeof seconds === 'number' && seconds > 0 ? `${changed.join(', ')}, in about ${span(seconds)}` : changed.join(', ');
}

export interface Compared {
  key: string;
  name: string;
  before: string;
  predicted: string | null;
  gained: string | null;
}

/** What was predicted beside what came of it; quantities that neither tells are left out. */
export function compared(predicted: Readonly<Record<string, unknown>>, gained: Readonly<Record<string, unknown>>): Compared[] {
  const [expected, got] = [changesOf(predicted), changesOf(gained)];
  return QUANTITIES.flatMap(({ key, name }) => {
    const planned = expected.find((change) => change.key === key);
    const other = got.find((change) => change.key === key);
    const before = (other ?? planned)?.before;
    return before === undefined ? [] : [{ key, name, before, predicted: planned?.after ?? null, gained: other?.after ?? null }];
  });
}

/** What a job says that it gained, if it does. */
export function gainedBy(result: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { gained } = result;
  return typeof gained === 'object' && gained !== null ? (gained as Record<string, unknown>) : {};
}
