/** Words for rules of notifications. A kind that this console does not know shows its name. */
import type { Channel, ProblemKind } from '../api/types';

export const PROBLEM_KINDS: { value: ProblemKind; label: string; about: string }[] = [
  { value: 'job_failed', label: 'Failed jobs', about: 'one message a table and kind of job, until a later job succeeds' },
  { value: 'job_unknown', label: 'Jobs with an unknown outcome', about: 'the server could not confirm a commit yet' },
  { value: 'optimizer_lost', label: 'Lost optimizers', about: 'no sign of life for the length of a lease' },
  { value: 'stream_stopped', label: 'Stopped streams', about: 'a stream goes on only after somebody has acted' },
  { value: 'out_of_sync', label: 'Hive tables out of sync', about: 'no sync can resolve the difference' },
  { value: 'duplicate_keys', label: 'Duplicate keys', about: 'a check found keys that occur more than once' },
  { value: 'not_fresh', label: 'Tables past their freshness', about: 'a table of a pipeline is older than fresh_within' },
  { value: 'migration_ended', label: 'Ends of migrations', about: 'an upgrade, downgrade, import or wave has ended' },
];

/** Table events, which a rule has instead of problems. */
export const TABLE_EVENTS: { value: ProblemKind; label: string; about: string }[] = [
  { value: 'table_created', label: 'Tables created', about: 'or registered, or restored after a drop' },
  { value: 'table_committed', label: 'Commits', about: 'of engines and of jobs, each as one event' },
  { value: 'table_renamed', label: 'Tables renamed', about: 'with the name before' },
  { value: 'table_dropped', label: 'Tables dropped', about: 'also those that can be restored' },
  { value: 'job_ended', label: 'Jobs ended', about: 'with their outcome and figures' },
];

/** Whether a rule, or a message of it, is about table events. */
export const isEvent = (kind: string | undefined): boolean => TABLE_EVENTS.some(({ value }) => value === kind);

export const CHANNELS: { value: Channel; label: string }[] = [
  { value: 'webhook', label: 'Webhook' },
  { value: 'slack', label: 'Slack' },
  { value: 'mail', label: 'Mail' },
];

export const kindLabel = (kind: string): string => [...PROBLEM_KINDS, ...TABLE_EVENTS].find(({ value }) => value === kind)?.label ?? kind.replaceAll('_', ' ');

export const channelLabel = (channel: string): string => CHANNELS.find(({ value }) => value === channel)?.label ?? channel;

/** `ann@example.com, bob@example.com` as a list. */
export const recipientsOf = (text: string): string[] => text.split(/[\s,;]+/).filter((part) => part !== '');
