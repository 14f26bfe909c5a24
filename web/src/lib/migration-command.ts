/** The command of a terminal that starts the same wave as the console. */
import type { HiveFilter } from '../api/hive-queries';
import { firn } from './terminal';

interface WaveOptions {
  name: string;
  stopAfter: number | null;
  keys: string | null;
  dryRun: boolean;
}

export function commandOf(catalog: string, filter: HiveFilter, { name, stopAfter, keys, dryRun }: WaveOptions): string {
  const where = Object.entries(filter).map(([key, value]) => `${key}=${String(value)}`);
  return firn('hive upgrade', where.length === 0 ? ['*'] : [], { catalog, where, name: name.trim(), keys, 'stop-after': stopAfter, 'dry-run': dryRun });
}
