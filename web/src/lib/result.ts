/** Parameters and results of jobs, in values of any shape, as people read them. */
import { bytes, count, moment, words } from './format';

const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d/;
const SHORT = 24;
const SHOWN = 4;
/** For the server, not for people. */
const INTERNAL: ReadonlySet<string> = new Set(['mode', 'merged_through', 'state', 'snapshot_id']);

const figure = (key: string, value: number): string => {
  if (key.includes('bytes')) return bytes(value);
  return Number.isInteger(value) ? count(value) : value.toFixed(2);
};

/** A value in words: numbers with their units, moments on the reader's clock. */
export function plain(key: string, value: unknown): string {
  if (typeof value === 'number') return figure(key, value);
  if (typeof value === 'string' && MOMENT.test(value)) return moment(value);
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (Array.isArray(value)) return value.map((item) => plain(key, item)).join(', ');
  if (typeof value === 'string') return value;
  if (typeof value !== 'object' || value === null) return 'none';
  return Object.entries(value)
    .map(([inner, part]) => `${words(inner)} ${plain(inner, part)}`)
    .join(', ');
}

/** Nouns whose plain form says too little beside a number. */
const NOUNS: Readonly<Record<string, string>> = { keys: 'duplicate keys', surplus_rows: 'duplicate rows', pending_rows: 'merged changes' };

/** "8 rewritten files", "1 added file", "39.3 MiB rewritten". */
function counted(key: string, value: number): string {
  if (key.includes('bytes')) return `${bytes(value)} ${words(key).replace(/ ?bytes ?/, '')}`.trim();
  const noun = NOUNS[key] ?? words(key);
  return `${figure(key, value)} ${value === 1 ? noun.replace(/ies$/, 'y').replace(/s( done| failed| before| after| outside)?$/, '$1') : noun}`;
}

/** The first values of a result in a line: "8 rewritten files, 39.3 MiB rewritten". */
export function resultText(result: Readonly<Record<string, unknown>>): string {
  return Object.entries(result)
    .filter(([key]) => !INTERNAL.has(key))
    .filter(([, value]) => (typeof value === 'number' && value !== 0) || (typeof value === 'string' && value.length < SHORT))
    .slice(0, SHOWN)
    .map(([key, value]) => (typeof value === 'number' ? counted(key, value) : `${words(key)} ${plain(key, value)}`))
    .join(', ');
}
