import { Autocomplete, Checkbox, Select, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';

import { sample as sampleQuery, topics as topicsQuery } from '../api/cdc-queries';
import { asProblem } from '../api/problem';
import { connectionCheck, connections } from '../api/stream-queries';
import { SERVER, type Need } from '../lib/access';
import { FORMATS } from '../lib/cdc';
import { many } from '../lib/format';
import { isTopic, LOG_FORMATS, missingInLog, needsRegistry, NEW_LOG, type LogDraft } from '../lib/log';
import { useWhyNot } from './current-user';
import styles from './log-fields.module.css';
import { CheckMark } from './status-icons';

const NEEDS: Need[] = [{ privilege: 'grant', on: SERVER }];
const IN_DIALOG = { withinPortal: false, floatingStrategy: 'fixed' } as const;

interface LogFieldsProps {
  log: LogDraft | null;
  change: (log: LogDraft | null) => void;
  /** A list that opens in a dialog belongs to it. */
  inDialog?: boolean;
}

/** The topic from which drains bring changes to a new keyed table, and what the server sees of it now. */
export function LogFields({ log, change, inDialog = false }: LogFieldsProps) {
  return (
    <fieldset className={styles.log}>
      <legend>Log</legend>
      <Checkbox
        size="xs"
        label="Take changes from a topic of Kafka"
        description="Optional: drains bring the topic’s records to the table. The topic cannot be changed later."
        checked={log !== null}
        onChange={(event) => change(event.currentTarget.checked ? NEW_LOG : null)}
      />
      {log !== null && <Fields log={log} change={change} inDialog={inDialog} />}
    </fieldset>
  );
}

function Fields({ log, change, inDialog }: { log: LogDraft; change: (log: LogDraft) => void; inDialog: boolean }) {
  const maySee = useWhyNot()(...NEEDS) === null;
  const { data: known } = useQuery(connections(maySee));
  const [search] = useDebouncedValue(log.topic.trim(), 200);
  const { data: listed } = useQuery(topicsQuery(maySee && log.connection !== '' ? log.connection : null, search));
  const comboboxProps = inDialog ? IN_DIALOG : {};
  const topic = log.topic.trim();
  return (
    <>
      <div className={styles.fields}>
        {maySee ? (
          <Select
            label="Connection"
            placeholder={known?.length === 0 ? 'None yet' : 'Choose a connection'}
            description="The cluster of the topic"
            value={log.connection === '' ? null : log.connection}
            data={(known ?? []).map(({ name }) => name)}
            onChange={(connection) => change({ ...log, connection: connection ?? '' })}
            comboboxProps={comboboxProps}
          />
        ) : (
          <TextInput
            label="Connection"
            description="Its name: only administrators may list them"
            value={log.connection}
            onChange={(event) => change({ ...log, connection: event.currentTarget.value })}
            classNames={{ input: 'mono' }}
          />
        )}
        <Autocomplete
          size="xs"
          label="Topic"
          description="One topic for the table"
          value={log.topic}
          data={listed?.topics ?? []}
          onChange={(value) => change({ ...log, topic: value })}
          error={topic !== '' && !isTopic(topic) ? 'A topic has 1 to 249 letters, digits, dots, hyphens and _' : null}
          classNames={{ input: 'mono' }}
          comboboxProps={comboboxProps}
        />
        <Select
          label="Format"
          description="How the records are written"
          placeholder="Choose a format"
          value={log.format === '' ? null : log.format}
          data={LOG_FORMATS}
          onChange={(format) => change({ ...log, format: format ?? '' })}
          comboboxProps={comboboxProps}
        />
      </div>
      {maySee && known?.length === 0 && (
        <span className="dim">
          Create a connection in a terminal first: <code className="mono">firn connection create kafka main --brokers kafka-1:9092</code>
        </span>
      )}
      {maySee ? <LogCheck log={log} /> : <span className="dim">Firn checks the topic when the table is there: Log, on the table’s page.</span>}
    </>
  );
}

interface Finding {
  status: 'ok' | 'warn' | 'blocked';
  text: string;
}

/** What cluster, registry and topic say before the first row: it stops nobody, because a topic may come later. */
function LogCheck({ log }: { log: LogDraft }) {
  const name = log.connection === '' ? null : log.connection;
  const [topic] = useDebouncedValue(isTopic(log.topic.trim()) ? log.topic.trim() : null, 400);
  const cluster = useQuery(connectionCheck(name));
  const listed = useQuery(topicsQuery(topic === null ? null : name, topic ?? ''));
  const isThere = topic !== null && listed.data?.topics.includes(topic) === true;
  const isCapture = FORMATS.includes(log.format);
  const sampled = useQuery(sampleQuery(isThere && isCapture ? name : null, topic, log.format));
  if (name === null) return null;
  const findings: Finding[] = [];
  if (cluster.error !== null) findings.push({ status: 'blocked', text: asProblem(cluster.error).message });
  if (cluster.data !== undefined) {
    const { brokers, topics, subjects } = cluster.data;
    findings.push({ status: 'ok', text: `${name} answers: ${many(brokers, 'broker')}, ${many(topics, 'topic')}${subjects === null ? '' : `, ${many(subjects, 'subject')} in the schema registry`}` });
    if (subjects === null && needsRegistry(log.format)) findings.push({ status: 'blocked', text: `${name} has no schema registry, which ${log.format} needs` });
  }
  if (listed.error !== null && cluster.error === null) findings.push({ status: 'blocked', text: asProblem(listed.error).message });
  if (topic !== null && listed.data !== undefined)
    findings.push(isThere ? { status: 'ok', text: `Topic ${topic} is there` } : { status: 'warn', text: `${name} shows no topic ${topic}: drains wait until it is there` });
  if (isThere && isCapture) findings.push(...describeSample(sampled.data?.records, sampled.error));
  return (
    <div role="status" aria-label="check of the log">
      <ul className={styles.findings}>
        {findings.map(({ status, text }) => (
          <li key={text} className={styles.finding}>
            <CheckMark status={status} />
            <div className="wrap-anywhere">{text}</div>
          </li>
        ))}
        {missingInLog(log) === null && (cluster.isFetching || listed.isFetching || sampled.isFetching) && <li className="dim">Asking Kafka …</li>}
      </ul>
    </div>
  );
}

function describeSample(records: readonly { problem: string | null }[] | undefined, error: unknown): Finding[] {
  if (error !== null && error !== undefined) return [{ status: 'blocked', text: asProblem(error).message }];
  if (records === undefined) return [];
  const bad = records.filter(({ problem }) => problem !== null);
  const [first] = bad;
  if (first === undefined) return [{ status: 'ok', text: records.length === 0 ? 'The topic has no records yet' : `${many(records.length, 'record')} of the topic fit the format` }];
  return [{ status: 'warn', text: `${bad.length} of ${many(records.length, 'record')} do not fit the format: ${first.problem ?? ''}` }];
}
