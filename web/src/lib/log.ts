/** The log that a new keyed table gets: the properties `firn.log.…`. Nothing here knows React. */
import { FORMATS } from './cdc';

export interface LogDraft {
  connection: string;
  topic: string;
  format: string;
}

export const NEW_LOG: LogDraft = { connection: '', topic: '', format: '' };
export const LOG_FORMATS = ['firn-json', 'upsert-json', 'avro', ...FORMATS];

/** Whether the schemas of a format are in a registry, which the connection has to name. */
export const needsRegistry = (format: string): boolean => format === 'avro' || format === 'debezium-avro';

/** Whether the server takes the name of a topic. */
export const isTopic = (topic: string): boolean => /^[A-Za-z0-9._-]{1,249}$/.test(topic) && topic !== '.' && topic !== '..';

/** Why a log is not complete yet; null for a table without log, and for a log that the server can check. */
export function missingInLog(log: LogDraft | null): string | null {
  if (log === null) return null;
  if (log.connection.trim() === '') return 'Choose the connection of the log.';
  if (log.topic.trim() === '') return 'Name the topic of the log.';
  if (!isTopic(log.topic.trim())) return 'The topic of the log has characters that no topic can have.';
  return log.format === '' ? 'Choose the format of the log’s records.' : null;
}

/** The properties of the new table. */
export const logProperties = (log: LogDraft | null): Record<string, string> =>
  log === null ? {} : { 'firn.log.topic': log.topic.trim(), 'firn.log.connection': log.connection.trim(), 'firn.log.format': log.format };

/** Properties as the command line takes them. */
export const pairsOf = (properties: Readonly<Record<string, string>>): string[] => Object.entries(properties).map(([key, value]) => `${key}=${value}`);
