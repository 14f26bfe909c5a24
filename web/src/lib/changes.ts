/** Changed rows and the versions between which they changed. Nothing here knows React. */
import type { ChangedRow, ChangesCommit, Version } from '../api/types';
import { ago, engineText } from './format';

export interface Cell {
  column: string;
  /** Undefined where there is no row; null is a null. */
  before: string | null | undefined;
  after: string | null | undefined;
  differs: boolean;
  /** Only the beginning is here. */
  cut: boolean;
}

export const SIGNS: Record<string, { sign: string; says: string }> = {
  insert: { sign: '+', says: 'inserted' },
  update: { sign: '~', says: 'updated' },
  delete: { sign: '-', says: 'deleted' },
};

/** The columns of a change beside its key: of an update those that differ, unless all are wanted. */
export function cellsOf(row: ChangedRow, primaryKey: readonly string[], all: boolean): Cell[] {
  const names = Object.keys(row.after ?? row.before ?? {}).filter((name) => !primaryKey.includes(name));
  const isUpdate = row.before !== null && row.after !== null;
  return names
    .filter((name) => !isUpdate || all || row.columns.includes(name))
    .map((column) => ({
      column,
      before: row.before === null ? undefined : row.before[column],
      after: row.after === null ? undefined : row.after[column],
      differs: !isUpdate || row.columns.includes(column),
      cut: row.cut.includes(column),
    }));
}

// eslint-disable-next-line no-control-regex -- to be seen, and not to act, is what these are for here
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** A value with the characters that nobody sees, or that turn others around, written out: `\u202e`. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** A change among others: a key has one net change, but rows of Hive files may share a key. */
export const idOf = (row: ChangedRow, place: number): string => `${place}/${Object.values(row.key).join('/')}`;

/** Who has brought a change: the writer's name, a job, the engine, or whoever it was. */
export function authorOf(commit: Pick<ChangesCommit, 'writer' | 'engine' | 'job_id' | 'principal'>): string {
  if (commit.writer !== null) return `writer ${commit.writer}`;
  if (commit.job_id !== null) return 'a job';
  return [commit.engine === null ? null : engineText(commit.engine), commit.principal].filter((part) => part !== null && part !== '').join(', ') || 'unknown';
}

interface Choice {
  value: string;
  label: string;
}

/** Versions to choose from, newest first; the empty table is version 0. One that is in the address stays a choice. */
export function versionChoices(versions: readonly Version[], now: number, also: readonly (string | undefined)[]): Choice[] {
  const known = versions.map((version) => ({ value: String(version.version), label: `version ${version.version}, ${ago(version.committed_at, now)}` }));
  const zero = versions.every(({ version }) => version > 0) ? [{ value: '0', label: 'version 0, the empty table' }] : [];
  const choices = [...known, ...zero];
  const more = [...new Set(also)].filter((value) => value !== undefined && !choices.some((choice) => choice.value === value));
  return [...choices, ...more.map((value = '') => ({ value, label: /^\d+$/.test(value) ? `version ${value}` : value }))];
}

/** Where a look begins when nobody says where: the last change. */
export const lastStep = (version: number | null): string => String(Math.max(0, (version ?? 0) - 1));
