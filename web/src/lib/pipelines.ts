/** What pipelines say in forms that the API document leaves open, and the places of a graph's tables. */
import type { PipelineTable, Run } from '../api/types';
import { bytes, many } from './format';

export interface FullReason {
  text: string;
  line: number | null;
  remedy: string | null;
  path?: string | null;
}

/** Parts of `firn.protocol.pipelines.TableDefinition`. */
export interface Definition {
  query: string;
  path: string;
  inputs: string[];
  key: string[];
  refresh: string;
  incremental: boolean;
  scope: string[];
  reasons: FullReason[];
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
  written?: number;
  unchanged?: number;
  deleted?: number;
  dropped?: number;
  incremental_bytes?: number | null;
  full_bytes?: number | null;
  snapshot_id?: string | null;
  checkpoint?: string | null;
  validators?: ValidatorResult[];
}

export const definitionOf = (table: PipelineTable): Definition => table.definition as unknown as Definition;

export const resultOf = (run: Run): RunResult => run.result;

/** The changes of an input that a run took in, as far as they were counted. */
export function changesText({ commits, files, bytes: size }: NonNullable<RunResult['inputs']>[number]): string {
  const parts = [commits == null ? '' : many(commits, 'commit'), files == null ? '' : many(files, 'file'), size == null ? '' : bytes(size)];
  return parts.filter(Boolean).join(', ') || 'changed';
}

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
  name: string;
  /** None for an input that the pipeline does not make. */
  table: PipelineTable | undefined;
  column: number;
  row: number;
}

export interface Graph {
  places: Place[];
  edges: { from: Place; to: Place }[];
  columns: number;
  rows: number;
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
    return { name, table: tables.find((table) => table.name === name), column, row };
  });
  const find = (name: string) => places.find((place) => place.name === name);
  const edges = tables.flatMap((table) =>
    definitionOf(table).inputs.flatMap((input) => {
      const [from, to] = [find(input), find(table.name)];
      return from === undefined || to === undefined ? [] : [{ from, to }];
    }),
  );
  return { places, edges, columns: Math.max(1, ...columns.values()) + 1, rows: Math.max(1, ...filled.values()) };
}
