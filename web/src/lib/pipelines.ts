/** What pipelines say in forms that the API document leaves open, and the places of a graph's tables. */
import type { PipelineNode, PipelineTable, Run } from '../api/types';
import { bytes, many, span } from './format';

export interface FullReason {
  text: string;
  line: number | null;
  column?: number | null;
  remedy: string | null;
  path?: string | null;
}

/** Parts of `firn.protocol.pipelines.TableDefinition`. */
export interface Definition {
  query: string;
  path: string;
  line: number;
  inputs: string[];
  /** The tables that move together with this one and itself, in one order; empty for a table that moves alone. */
  consistent: string[];
  key: string[];
  /** How runs write the table; null for the mode that its key implies. */
  mode: string | null;
  refresh: string;
  incremental: boolean;
  scope: string[];
  reasons: FullReason[];
  /** The Python of the table, with the files that it consists of. */
  code?: { modules: string[] } | null;
  trigger: { kind: string; cron: string | null; fresh_within_seconds: number | null; all_inputs: boolean };
  validators: { name: string; kind: string; severity: string }[];
}

export interface ValidatorResult {
  name: string;
  severity: string;
  passed: boolean;
  violations: number | null;
  detail: string | null;
  examples: Record<string, string | null>[];
}

/** Parts of `firn.protocol.pipelines.RunResult`; a run that has not ended has none of them. */
export interface RunResult {
  mode?: string;
  reason?: string | null;
  inputs?: { table: string; commits?: number | null; files?: number | null; bytes?: number | null }[];
  keys?: number | null;
  /** Of `keys`, those that were computed again; null if no changes were added to counts and sums. */
  recomputed?: number | null;
  written?: number;
  unchanged?: number;
  deleted?: number;
  dropped?: number;
  /** Computed rows that the table does not have; only of a table that others write. */
  absent?: number;
  /** The table that has the dropped rows. */
  quarantine?: string | null;
  chunks?: number;
  incremental_bytes?: number | null;
  full_bytes?: number | null;
  snapshot_id?: string | null;
  checkpoint?: string | null;
  validators?: ValidatorResult[];
  held?: boolean;
  /** The results of the other tables of the run, by name. */
  together?: Record<string, RunResult>;
}

export const definitionOf = (table: PipelineTable): Definition => table.definition as unknown as Definition;

export const resultOf = (run: Run): RunResult => run.result;

/** The results of a held run for each of its tables; empty where the attempt that computed the rows died before its report. */
export function heldResults(run: Run, tables: readonly string[]): [string, RunResult][] {
  const { together = {}, ...own } = resultOf(run);
  const all: Record<string, RunResult | undefined> = { ...together, ...(own.mode === 'nothing' ? {} : { [run.table]: own }) };
  return (tables.length === 0 ? [run.table] : tables).map((name) => [name, all[name] ?? {}]);
}

/** The tables that have the rows that validators dropped, of all tables of a run. */
export function quarantinesOf({ together = {}, ...own }: RunResult): string[] {
  return [own, ...Object.values(together)].flatMap(({ quarantine }) => (quarantine == null ? [] : [quarantine]));
}

/** "2,087 rows to write, 22 rows to delete" of a run that is not committed yet. */
export function changedText({ mode, written = 0, deleted = 0 }: RunResult): string {
  if (mode === undefined) return 'its changes, which nobody counted';
  const parts = [written > 0 ? `${many(written, 'row')} to write` : '', deleted > 0 ? `${many(deleted, 'row')} to delete` : ''];
  return parts.filter(Boolean).join(', ') || 'no row changes';
}

/** The changes of an input that a run took in, as far as they were counted. */
export function changesText({ commits, files, bytes: size }: NonNullable<RunResult['inputs']>[number]): string {
  const parts = [commits == null ? '' : many(commits, 'commit'), files == null ? '' : many(files, 'file'), size == null ? '' : bytes(size)];
  return parts.filter(Boolean).join(', ') || 'changed';
}

/** Whether a table is older than its owner wants, and how old, in a few words; nothing for a table that is not built. */
export function lagText({ lag_seconds: lag, target_seconds: target }: Pick<PipelineNode, 'lag_seconds' | 'target_seconds'>): { text: string; late: boolean } {
  const wanted = target == null ? '' : `, target ${span(target)}`;
  if (lag == null) return { text: target == null ? '' : `target ${span(target)}`, late: false };
  return { text: `${lag === 0 ? 'up to date' : `${span(lag)} behind`}${wanted}`, late: target != null && lag > target };
}

/** A line of SQL in parts; `forced` is one that makes each run full. */
export interface LinePart {
  text: string;
  forced: FullReason | undefined;
}

/** The lines of a file. A reason's place says where a part begins; it ends with its expression or line, or where the next part begins. */
export function markReasons(text: string, reasons: readonly FullReason[]): LinePart[][] {
  return text.split('\n').map((line, index) => {
    const here = reasons.filter((reason) => reason.line === index + 1).sort((a, b) => startOf(a, line) - startOf(b, line));
    const first = here[0];
    if (first === undefined) return [{ text: line, forced: undefined }];
    const parts = [{ text: line.slice(0, startOf(first, line)), forced: undefined }, ...here.flatMap((reason, at) => partsOf(line, reason, here[at + 1]))];
    return parts.filter(({ text }) => text !== '');
  });
}

function partsOf(line: string, reason: FullReason, next: FullReason | undefined): LinePart[] {
  const text = line.slice(startOf(reason, line), next === undefined ? undefined : startOf(next, line));
  const end = reason.column == null ? text.length : endOfExpression(text);
  return [
    { text: text.slice(0, end), forced: reason },
    { text: text.slice(end), forced: undefined },
  ];
}

/** Where the expression ends that a line begins with: at a comma, at the parenthesis around it, or before its name or the next clause. */
function endOfExpression(text: string): number {
  let depth = 0;
  for (const { index, 0: token } of text.matchAll(/[(),;]|\s+(?:AS|FROM|WHERE|GROUP|HAVING)\b/gi)) {
    if (token === '(') depth += 1;
    else if (depth === 0 && index > 0) return index;
    else if (token === ')') depth -= 1;
  }
  return text.length;
}

/** A reason without a column is about its whole line. */
const startOf = ({ column }: FullReason, line: string) => Math.max(0, column == null ? line.search(/\S|$/) : column - 1);

const UNITS: [number, string][] = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
];

/** When runs start by themselves, in a few words. */
export function triggerText({ kind, cron, fresh_within_seconds: seconds, all_inputs: all }: Definition['trigger']): string {
  if (kind === 'cron') return `by the schedule ${cron ?? ''}, UTC`;
  if (kind === 'commit') return all ? 'when all inputs have changed' : 'when an input has changed';
  if (kind === 'fresh' && seconds !== null) {
    const [size, unit] = UNITS.find(([each]) => seconds % each === 0) ?? [1, 's'];
    return `fresh within ${seconds / size} ${unit}`;
  }
  return 'by hand';
}

export interface Place {
  /** The name again, for the drawing. */
  id: string;
  name: string;
  /** None for an input that the pipeline does not make. */
  table: PipelineTable | undefined;
  column: number;
  row: number;
}

export interface Graph {
  places: Place[];
  edges: { from: Place; to: Place }[];
}

/** Inputs on the left, each table in the column after the last of its inputs. */
export function layOut(tables: readonly PipelineTable[]): Graph {
  const columns = new Map<string, number>();
  for (const table of tables) {
    for (const input of definitionOf(table).inputs) if (!tables.some(({ name }) => name === input)) columns.set(input, 0);
  }
  for (const table of tables) {
    columns.set(table.name, 1 + Math.max(0, ...definitionOf(table).inputs.map((input) => columns.get(input) ?? 0)));
  }
  const filled = new Map<number, number>();
  const places = [...columns].map(([name, column]) => {
    const row = filled.get(column) ?? 0;
    filled.set(column, row + 1);
    return { id: name, name, table: tables.find((table) => table.name === name), column, row };
  });
  const find = (name: string) => places.find((place) => place.name === name);
  const edges = tables.flatMap((table) =>
    definitionOf(table).inputs.flatMap((input) => {
      if (input === table.name) return []; // it fills columns of a table that it reads
      const [from, to] = [find(input), find(table.name)];
      return from === undefined || to === undefined ? [] : [{ from, to }];
    }),
  );
  return { places, edges };
}
