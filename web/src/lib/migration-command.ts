/** The command of a terminal that starts the same wave as the console. */
import type { HiveFilter } from '../api/hive-queries';

interface WaveOptions {
  name: string;
  stopAfter: number | null;
  keys: string | null;
  dryRun: boolean;
}

export function commandOf(catalog: string, filter: HiveFilter, { name, stopAfter, keys, dryRun }: WaveOptions): string {
  const where = Object.entries(filter).map(([key, value]) => `--where ${quoted(`${key}=${String(value)}`)}`);
  return [
    'firn hive upgrade',
    ...(where.length === 0 ? [`'*'`] : where),
    ...(name.trim() === '' ? [] : [`--name ${quoted(name)}`]),
    ...(keys === null ? [] : [`--keys ${quoted(keys)}`]),
    ...(stopAfter === null ? [] : [`--stop-after ${stopAfter}`]),
    ...(dryRun ? ['--dry-run'] : []),
    `--catalog ${quoted(catalog)}`,
  ].join(' ');
}

/** For a POSIX shell. */
const quoted = (text: string): string => (/^[\w.=/:@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
