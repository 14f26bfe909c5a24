/** The draft of a sync file, as the wizard of change data capture holds it. Nothing here knows React. */
import type { CdcPlanRequest, CdcSample } from '../api/types';

export const FORMATS = ['debezium-json', 'debezium-avro', 'canal-json', 'maxwell-json', 'dms-json'];
export const COLUMN_TYPES = ['boolean', 'int', 'long', 'float', 'double', 'decimal(18,2)', 'string', 'binary', 'date', 'timestamp', 'timestamptz'];

export interface RuleDraft {
  id: number;
  include: string;
  exclude: string;
  table: string;
  /** Names between commas; empty for the key of the records. */
  key: string;
  source: string;
  partial: boolean;
  /** Types that the user has chosen, by column. */
  columns: Record<string, string>;
}

export interface Draft {
  connection: string | null;
  /** Names of topics, or patterns with an asterisk. */
  topics: string[];
  format: string | null;
  rules: RuleDraft[];
  start: 'earliest' | 'latest';
  deletes: 'apply' | 'ignore' | 'stop';
  truncates: 'stop' | 'ignore' | 'empty';
  schema: 'add' | 'ignore';
}

export const EMPTY: Draft = { connection: null, topics: [], format: null, rules: [], start: 'earliest', deletes: 'apply', truncates: 'stop', schema: 'add' };

export const newRule = (id: number, include = '', table = ''): RuleDraft => ({ id, include, exclude: '', table, key: '', source: '', partial: false, columns: {} });

/** Whether a name is what a pattern says; an asterisk stands for any text. */
export function matchesPattern(name: string, pattern: string): boolean {
  const parts = pattern.split('*').map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`, 's').test(name);
}

/** The tables of the source that the records of a sample name. */
export const sourcesOf = (sample: CdcSample | undefined): string[] => [...new Set((sample?.records ?? []).flatMap(({ source }) => (source === null ? [] : [source])))].sort();

/** A rule for each database, or schema, of the source: its tables keep their names in a namespace of its name. */
export function suggestRules(sources: readonly string[]): RuleDraft[] {
  const prefixes = [...new Set(sources.map((source) => source.split('.').slice(0, -1).join('.')))].filter((prefix) => prefix !== '');
  return prefixes.map((prefix, id) => newRule(id, `${prefix}.*`, `${namespaceOf(prefix)}.\\1`));
}

/** The last part of a name, without characters that a namespace would have to quote. */
const namespaceOf = (prefix: string): string => (prefix.split('.').at(-1) ?? '').replace(/[^A-Za-z0-9_]/g, '_') || 'lake';

const namesOf = (text: string): string[] => text.split(',').map((name) => name.trim()).filter((name) => name !== '');
const orNull = (text: string): string | null => (text.trim() === '' ? null : text.trim());

/** Why a draft is not complete yet; null if the server can plan it. */
export function missingIn(draft: Draft): string | null {
  if (draft.connection === null) return 'Choose a connection.';
  if (draft.topics.length === 0) return 'Choose topics.';
  if (draft.format === null) return 'Choose the format of the records.';
  if (draft.rules.length === 0) return 'Add a rule.';
  return draft.rules.some((rule) => rule.include.trim() === '' || rule.table.trim() === '') ? 'Each rule needs tables of the source and a table.' : null;
}

/** The request for a plan; undefined while something is missing. */
export function requestOf(draft: Draft): CdcPlanRequest | undefined {
  if (missingIn(draft) !== null) return undefined;
  return {
    name: nameOf(draft),
    format: draft.format ?? '',
    connection: draft.connection ?? '',
    topics: draft.topics,
    start: draft.start,
    deletes: draft.deletes,
    truncates: draft.truncates,
    schema: draft.schema,
    tables: draft.rules.map((rule) => ({
      include: rule.include.trim(),
      exclude: orNull(rule.exclude),
      table: rule.table.trim(),
      primary_key: namesOf(rule.key),
      source_column: orNull(rule.source),
      partial: rule.partial,
      columns: rule.columns,
    })),
  };
}

/** A name for people, from the connection: the server takes letters, digits, - and _. */
const nameOf = (draft: Draft): string => (draft.connection ?? '').replace(/[^A-Za-z0-9_-]/g, '-').replace(/^[-_]+/, '').slice(0, 40) || 'sync';

/** The rule that takes a table of the source: the first one that matches. */
export const ruleOf = (rules: readonly RuleDraft[], source: string): RuleDraft | undefined =>
  rules.find((rule) => matchesPattern(source, rule.include.trim()) && !(rule.exclude.trim() !== '' && matchesPattern(source, rule.exclude.trim())));

/** The draft with the type of a column of a rule; an empty type is that of the records. */
export function withType(draft: Draft, id: number, column: string, type: string): Draft {
  const change = ({ columns, ...rule }: RuleDraft): RuleDraft => {
    const others = Object.fromEntries(Object.entries(columns).filter(([name]) => name !== column));
    return { ...rule, columns: type === '' ? others : { ...others, [column]: type } };
  };
  return { ...draft, rules: draft.rules.map((rule) => (rule.id === id ? change(rule) : rule)) };
}
