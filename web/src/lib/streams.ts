/** Logs, positions, writers and consumers in words. Nothing here knows React. */
import type { Consumer, Stream, TableLog, Table, Writer } from '../api/types';
import { count, many, span } from './format';

/** The writer under whose name drains commit; see catalog/keyed/spec.py. */
export const LOG_WRITER = 'log';

/** Partitions that a position names one by one; with more of them it only counts. */
const FEW = 3;

interface Position {
  topic: string;
  /** The next offset of each partition, in the order of the text. */
  offsets: [partition: string, offset: number][];
}

/** A position of Kafka, such as `orders:0:1488,1:1512`; null for any other text. */
export function parsePosition(text: string): Position | null {
  const match = /^(.+?):(\d+:\d+(?:,\d+:\d+)*)$/.exec(text);
  if (match === null) return null;
  const offsets = (match[2] ?? '').split(',').map((pair): [string, number] => {
    const [partition = '', offset = ''] = pair.split(':');
    return [partition, Number(offset)];
  });
  return { topic: match[1] ?? '', offsets };
}

/** A position in a list: that of a topic with many partitions would fill the page. */
export function positionText(text: string | null): string {
  if (text === null) return 'none';
  const position = parsePosition(text);
  if (position === null || position.offsets.length <= FEW) return text;
  return `${position.topic}: ${many(position.offsets.length, 'partition')}`;
}

/** The same in full, a partition in each line. */
export function positionLines(text: string): string {
  const position = parsePosition(text);
  if (position === null) return text;
  return [position.topic, ...position.offsets.map(([partition, offset]) => `partition ${partition}: ${count(offset)}`)].join('\n');
}

/** The topic in front of a table and how its records are written; null for a table without a log. */
export function logOf(table: Pick<Table, 'properties'>): { topic: string; format: string; connection: string | null; brokers: string | null } | null {
  const topic = table.properties['firn.log.topic'];
  if (topic === undefined) return null;
  return {
    topic,
    format: table.properties['firn.log.format'] ?? '',
    connection: table.properties['firn.log.connection'] ?? null,
    brokers: table.properties['firn.log.brokers'] ?? null,
  };
}

/** Offsets of all partitions together. */
export const totalOf = (offsets: Readonly<Record<string, number>>): number => Object.values(offsets).reduce((sum, offset) => sum + offset, 0);

/** Offsets by partition, a line for each. */
export function partitionLines(log: Pick<TableLog, 'start' | 'end'>): string {
  return Object.entries(log.end)
    .map(([partition, end]) => `partition ${partition}: ${count(log.start[partition] ?? 0)} of ${count(end)}`)
    .join('\n');
}

/** How many records wait: offsets have gaps, so it is a maximum. */
export const waitingText = (lag: number): string => (lag === 0 ? 'no record waits' : `up to ${many(lag, 'record waits', 'records wait')}`);

/** How a user names the position to which a log is reset. */
export type ResetTo = 'earliest' | 'latest' | 'time' | 'offsets';

/** What the server takes as a target: a time of the user's clock with its zone, or the text as typed; null if there is none yet. */
export function resetTarget(to: ResetTo, typed: string): string | null {
  if (to === 'earliest' || to === 'latest') return to;
  const text = typed.trim();
  if (to === 'offsets') return text === '' ? null : text;
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? null : at.toISOString();
}

/** What a skip gives up. */
export function lossText(lost: number | null): string {
  if (lost === null) return 'Nobody can count the records that stay missing.';
  return lost === 0 ? 'No record is lost.' : `Up to ${many(lost, 'record stays', 'records stay')} missing in the table.`;
}

export type WriterState = 'fenced' | 'new' | 'open';

export function writerState(writer: Pick<Writer, 'fenced_at' | 'committed_at'>): WriterState {
  if (writer.fenced_at !== null) return 'fenced';
  return writer.committed_at === null ? 'new' : 'open';
}

export type ConsumerState = 'behind' | 'waiting' | 'current';

/** Behind is who cannot read on: versions that it needs have expired. */
export function consumerState(consumer: Pick<Consumer, 'first_version_left' | 'lag_versions'>): ConsumerState {
  if (consumer.first_version_left !== null) return 'behind';
  return consumer.lag_versions > 0 ? 'waiting' : 'current';
}

/** What a consumer misses or gets again after it was reset from a version to another one. */
export function describeReset(from: number, to: number): string {
  if (to === from) return `It stays at version ${from}.`;
  if (to > from) {
    const skipped = to - from === 1 ? `version ${to}` : `versions ${from + 1} to ${to}`;
    return `It skips the changes of ${skipped}, and never reads them.`;
  }
  const again = from - to === 1 ? `version ${from}` : `versions ${to + 1} to ${from}`;
  return `It reads the changes of ${again} again.`;
}

/** Behind the aim of its table. A paused stream lags on purpose. */
export function isLate(stream: Pick<Stream, 'status' | 'lag_seconds' | 'max_lag_seconds'>): boolean {
  return stream.status !== 'paused' && stream.max_lag_seconds !== null && stream.lag_seconds > stream.max_lag_seconds;
}

/** Rows in a second: 1,200; small rates keep a digit. */
export const rateText = (rate: number): string => (rate > 0 && rate < 10 ? rate.toFixed(1) : count(rate));

/** What drained in the newest attempt, and why it is Spark; null before an attempt has begun to drain. */
export function engineOf(stream: Pick<Stream, 'attempts'>): { name: string; reason: string | null } | null {
  const newest = stream.attempts.at(-1);
  return newest === undefined ? null : attemptEngine(newest);
}

/** The same of one attempt. */
export function attemptEngine(attempt: Pick<Stream['attempts'][number], 'engine' | 'engine_reason'>): { name: string; reason: string | null } | null {
  if (attempt.engine === null) return null;
  const names: Record<string, string> = { light: 'without Spark', spark: 'Spark' };
  return { name: names[attempt.engine] ?? attempt.engine, reason: attempt.engine_reason };
}

/** What a stream does now, for the strip of its table. */
export function streamText(stream: Pick<Stream, 'status' | 'failures' | 'rows_per_second' | 'lag_seconds'>): string {
  if (stream.status === 'running') {
    const rate = stream.rows_per_second === null ? '' : `, ${rateText(stream.rows_per_second)} rows/s`;
    return `running${rate}${stream.lag_seconds >= 1 ? `, ${span(stream.lag_seconds)} behind` : ''}`;
  }
  return stream.status === 'waiting' && stream.failures > 0 ? 'waiting after a failure' : stream.status;
}
