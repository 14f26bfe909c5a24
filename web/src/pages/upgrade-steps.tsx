import { Button, Checkbox, Select } from '@mantine/core';
import { IconArrowLeft, IconArrowRight, IconCheck, IconMinus } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';
import type { ReactNode } from 'react';

import { answered, api } from '../api/client';
import type { Check, HiveReport } from '../api/types';
import { ActionButton } from '../components/action-button';
import { DataTable, type Column } from '../components/data-table';
import { Bytes, Count } from '../components/figures';
import { InTerminal } from '../components/in-terminal';
import { LogFields } from '../components/log-fields';
import { CheckMark } from '../components/status-icons';
import { Note, ProblemNote, Words } from '../components/notes';
import { Facts } from '../components/panel';
import { need, onTable, scopeOf } from '../lib/access';
import { logProperties, missingInLog, pairsOf, type LogDraft } from '../lib/log';
import { partsOf } from '../lib/names';
import { bytes, many } from '../lib/format';
import { firn } from '../lib/terminal';
import { ConvertOffer } from './convert-offer';
import { KeyCount } from './key-count';
import { KeySuggestions } from './key-suggestions';
import styles from './upgrade.module.css';

export interface Choices {
  key: string[];
  sequence: string;
  /** Whether files in sub-directories count: `read` or `ignore`; empty where nobody has said so here. */
  subdirectories: string;
  /** The topic of a keyed table; null for a table without log. */
  log: LogDraft | null;
}

/** What the table is to be given beside its key. */
export const propertiesOf = (subdirectories: string): Record<string, string> =>
  subdirectories === '' ? {} : { 'firn.hive.subdirectories': subdirectories };

export interface StepProps {
  catalog: string;
  report: HiveReport;
  choices: Choices;
  go: (step: number) => void;
  /** The report with the chosen key is on its way, or why it does not come. */
  checking: boolean;
  problem: unknown;
}

type HiveColumn = HiveReport['columns'][number];

const COLUMNS: Column<HiveColumn>[] = [
  { key: 'name', title: 'Column', cell: (row) => <span className="mono">{row.name}</span> },
  { key: 'type', title: 'Type', cell: (row) => <span className="mono">{row.type}</span> },
  { key: 'role', title: '', cell: (row) => (row.partition ? 'partition' : ''), wide: true },
  { key: 'comment', title: 'Comment', cell: (row) => <span className="dim">{row.comment}</span> },
];
const UNCOMMENTED = COLUMNS.filter(({ key }) => key !== 'comment');

function Footer({ children }: { children: ReactNode }) {
  return <div className={styles.footer}>{children}</div>;
}

function Back({ to, go }: { to: number; go: (step: number) => void }) {
  return (
    <Button variant="default" leftSection={<IconArrowLeft size={14} />} onClick={() => go(to)}>
      Back
    </Button>
  );
}

function Next({ to, go, reason }: { to: number; go: (step: number) => void; reason?: string | null }) {
  return (
    <ActionButton rightSection={<IconArrowRight size={14} />} onClick={() => go(to)} disabledReason={reason}>
      Next
    </ActionButton>
  );
}

/** Step 1: format, size, columns. */
export function Found({ report, go }: StepProps) {
  const commented = report.columns.some((column) => column.comment !== null && column.comment !== '');
  const partitions = report.columns.filter((column) => column.partition).map((column) => column.name);
  return (
    <div className="stack">
      <Facts
        facts={[
          { name: 'format', value: report.format },
          { name: 'files', value: <Count value={report.files} /> },
          { name: 'size', value: <Bytes value={report.bytes} /> },
          { name: 'partitions', value: partitions.length === 0 ? 'not partitioned' : <Count value={report.partitions} /> },
          ...(partitions.length === 0 ? [] : [{ name: 'partitioned by', value: <span className="mono">{partitions.join(', ')}</span> }]),
          { name: 'location', value: <span className="mono">{report.location}</span> },
        ]}
      />
      <div className={styles.inner} tabIndex={0} role="region" aria-label="columns of the table">
        <DataTable plain name="columns" columns={commented ? COLUMNS : UNCOMMENTED} rows={report.columns} id={(column) => column.name} empty={null} />
      </div>
      <Footer>
        <Next to={1} go={go} />
      </Footer>
    </div>
  );
}

function CheckLine({ check }: { check: Check }) {
  return (
    <li className={styles.check}>
      <CheckMark status={check.status} />
      <div>
        <div className="wrap-anywhere">
          <Words>{check.message}</Words>
        </div>
        {check.advice !== '' && (
          <div className="dim">
            <Words>{check.advice}</Words>
          </div>
        )}
      </div>
    </li>
  );
}

const ORDER = ['blocked', 'warn', 'ok'];
const rank = (check: Check): number => ORDER.indexOf(check.status);

/** Step 2: what was looked at, worst first. */
export function Checks({
  catalog,
  report,
  choices,
  go,
  again,
  looking,
  decide,
}: StepProps & { again: () => void; looking: boolean; decide: (subdirectories: string) => void }) {
  const hasBelow = report.checks.some((check) => check.code === 'subdirectories');
  const sorted = [...report.checks].sort((item, other) => rank(item) - rank(other));
  const blocked = sorted.filter((check) => check.status === 'blocked').length;
  return (
    <div className="stack">
      {blocked > 0 && (
        <Note tone="bad" title={`${many(blocked, 'problem')} ${blocked === 1 ? 'blocks' : 'block'} the upgrade`}>
          Fix the checks marked red, then check again. Nothing has changed.
        </Note>
      )}
      {(hasBelow || choices.subdirectories !== '') && <Subdirectories value={choices.subdirectories} decide={decide} />}
      <ul className={styles.checks}>
        {sorted.map((check) => (
          <CheckLine key={`${check.code}${check.message}`} check={check} />
        ))}
      </ul>
      {report.convertible && <ConvertOffer catalog={catalog} report={report} />}
      <Footer>
        <Back to={0} go={go} />
        <Button variant="default" onClick={again} loading={looking}>
          Check again
        </Button>
        <Next to={2} go={go} reason={report.eligible ? null : 'Fix the checks marked red first.'} />
      </Footer>
    </div>
  );
}

/** Whether files below a table's or partition's directory are rows of it: only people know what Hive's readers do. */
export function Subdirectories({ value, decide }: { value: string; decide: (subdirectories: string) => void }) {
  return (
    <Select
      label="Files in subdirectories"
      description="Choose what Hive’s readers do"
      w={360}
      value={value}
      onChange={(chosen) => decide(chosen ?? '')}
      data={[
        { value: '', label: 'as set for the database or catalog' },
        { value: 'read', label: 'read' },
        { value: 'ignore', label: 'ignore' },
      ]}
    />
  );
}

const KEY_COLUMNS = (choices: Choices, candidates: string[], toggle: (name: string) => void): Column<HiveColumn>[] => [
  {
    key: 'key',
    title: 'Key',
    cell: (row) => (
      <Checkbox
        size="xs"
        aria-label={`${row.name} is part of the key`}
        checked={choices.key.includes(row.name)}
        disabled={!candidates.includes(row.name)}
        onChange={() => toggle(row.name)}
      />
    ),
  },
  { key: 'name', title: 'Column', cell: (row) => <span className="mono">{row.name}</span> },
  { key: 'type', title: 'Type', cell: (row) => <span className="mono">{row.type}</span> },
  {
    key: 'note',
    title: '',
    wide: true,
    cell: (row) => (
      <span className="dim">
        {candidates.includes(row.name) ? (row.partition ? 'partition column' : '') : 'cannot be a key: values of this type have no exact equality'}
      </span>
    ),
  },
];

/** Step 3: which columns name a row, and which change of a row is newer. */
export function KeyChoice(props: StepProps & { choose: (choices: Choices) => void }) {
  const { report, choices, go, choose, checking, problem } = props;
  const toggle = (name: string) => {
    const key = choices.key.includes(name) ? choices.key.filter((item) => item !== name) : [...choices.key, name];
    choose({ ...choices, key, sequence: key.includes(choices.sequence) ? '' : choices.sequence });
  };
  const may = (column: HiveColumn) => report.primary_key_candidates.includes(column.name);
  // That nulls and repeated keys are not known yet is said above, once.
  const against = report.checks.filter((check) => check.status !== 'ok' && !(check.code === 'key' && check.status === 'warn'));
  const others = report.columns.filter((column) => !choices.key.includes(column.name) && !column.partition);
  return (
    <div className="stack">
      <div className={styles.lead}>
        With a primary key the table takes upserts and deletes and merges itself; without one it becomes a plain Iceberg table. A key
        cannot be changed later.
      </div>
      <KeySuggestions
        suggestions={report.key_suggestions}
        disproved={report.disproved_keys}
        chosen={choices.key}
        choose={(key) => choose({ ...choices, key, sequence: key.includes(choices.sequence) ? '' : choices.sequence })}
      />
      <div className={styles.keys} tabIndex={0} role="region" aria-label="columns that may be the key">
        <DataTable
          plain
          name="key columns"
          columns={KEY_COLUMNS(choices, report.primary_key_candidates, toggle)}
          rows={[...report.columns.filter(may), ...report.columns.filter((column) => !may(column))]}
          id={(column) => column.name}
          empty={null}
        />
      </div>
      {choices.key.length > 0 && (
        <>
          <Note
            title={
              <>
                Primary key: <span className="mono">{choices.key.join(', ')}</span>
              </>
            }
          >
            {checking
              ? 'Checking these columns …'
              : 'Firn checks the footer of every file for nulls in the key; nulls stop the upgrade. Duplicate keys are counted only if you ask, because that reads every row.'}
          </Note>
          {!checking && report.eligible && <KeyCount catalog={props.catalog} report={report} columns={choices.key} properties={propertiesOf(choices.subdirectories)} />}
          <Select
            label="Sequence field"
            description="For changes of the same key, the higher value wins, however late it arrives"
            w={360}
            value={choices.sequence}
            onChange={(value) => choose({ ...choices, sequence: value ?? '' })}
            data={[{ value: '', label: 'none: the later commit wins' }, ...others.map((column) => column.name)]}
          />
          <LogFields log={choices.log} change={(log) => choose({ ...choices, log })} />
        </>
      )}
      {problem !== null && problem !== undefined && <ProblemNote error={problem} />}
      {against.length > 0 && (
        <ul className={styles.checks}>
          {against.map((check) => (
            <CheckLine key={`${check.code}${check.message}`} check={check} />
          ))}
        </ul>
      )}
      <Footer>
        <Back to={1} go={go} />
        <Next to={3} go={go} reason={whyNotOn(props)} />
      </Footer>
    </div>
  );
}

function whyNotOn({ report, choices, checking, problem }: StepProps): string | null {
  if (checking) return 'The chosen columns are still being checked.';
  if (problem !== null && problem !== undefined) return 'These columns cannot be the key.';
  return report.eligible ? missingInLog(choices.log) : 'Fix the checks marked red first, or choose other columns.';
}

/** Step 4: what will and will not happen, and the button. */
export function Consequences(props: StepProps & { started: (operation: string) => void }) {
  const { catalog, report, choices, go, started } = props;
  const start = useMutation({
    mutationFn: () =>
      answered(
        api.POST('/catalogs/{catalog}/hive/{full_name}/upgrade', {
          params: { path: { catalog, full_name: report.table } },
          body: {
            primary_key: choices.key,
            sequence_field: choices.sequence === '' ? null : choices.sequence,
            properties: { ...propertiesOf(choices.subdirectories), ...logProperties(choices.log) },
          },
        }),
      ),
    onSuccess: (operation) => started(operation.id),
  });
  return (
    <div className="stack">
      <div className={styles.two}>
        <Plan title="What will happen" items={will(catalog, report, choices)} icon={<IconCheck size={15} className="ok" aria-hidden />} />
        <Plan title="What will not happen" items={willNot()} icon={<IconMinus size={15} className="dim" aria-hidden />} />
      </div>
      {start.error && <ProblemNote error={start.error} />}
      <InTerminal command={upgradeCommand(catalog, report, choices)} />
      <Footer>
        <Back to={2} go={go} />
        <ActionButton needs={[...need(scopeOf(catalog, partsOf(report.target).slice(0, -1)), 'create'), ...need(onTable(catalog, report.target), 'read')]} loading={start.isPending} disabledReason={whyNotOn(props)} onClick={() => start.mutate()}>
          Upgrade {report.table}
        </ActionButton>
      </Footer>
    </div>
  );
}

const upgradeCommand = (catalog: string, report: HiveReport, { key, sequence, subdirectories, log }: Choices): string =>
  firn('hive upgrade', [report.table], { catalog, 'primary-key': key.join(','), 'sequence-field': sequence, subdirectories, property: pairsOf(logProperties(log)) });

function Plan({ title, items, icon }: { title: string; items: ReactNode[]; icon: ReactNode }) {
  return (
    <section>
      <h2 className={styles.planTitle}>{title}</h2>
      <ul className={styles.checks}>
        {items.map((item, index) => (
          <li key={index} className={styles.check}>
            <span className={styles.planIcon}>{icon}</span>
            <div>{item}</div>
          </li>
        ))}
      </ul>
    </section>
  );
}

function will(catalog: string, report: HiveReport, { key, sequence, subdirectories, log }: Choices): ReactNode[] {
  const name = <span className="mono">{`${catalog}.${report.target}`}</span>;
  return [
    `Firn reads the footers of ${many(report.files, 'file')} (${bytes(report.bytes)} of data), not the data.`,
    <>
      {key.length === 0 ? 'A plain Iceberg table ' : 'A keyed table '}
      {name} appears in one commit, with the files that Hive has now.
    </>,
    ...(key.length === 0
      ? []
      : [
          <>
            Upserts and deletes by <span className="mono">{key.join(', ')}</span> go to its change store, and readers see them at once; an
            optimizer merges them in the background.
          </>,
        ]),
    ...(subdirectories === '' ? [] : [`Firn ${subdirectories === 'read' ? 'reads' : 'ignores'} files in sub-directories, now and in later syncs.`]),
    ...(sequence === ''
      ? []
      : [
          <>
            For changes of the same key, the higher <span className="mono">{sequence}</span> wins.
          </>,
        ]),
    ...(log === null
      ? []
      : [
          <>
            Drains bring the records of topic <span className="mono">{log.topic.trim()}</span> to it. The topic cannot be changed later.
          </>,
        ]),
    'Firn syncs later changes of Hive jobs into it, on a schedule and on request.',
  ];
}

function willNot(): ReactNode[] {
  return [
    'No Hive file is moved, rewritten or deleted, now or by a later merge.',
    'Hive readers and writers go on as before.',
    'Hive sees changes made through Firn only after a publish.',
    'A failed or canceled upgrade leaves the Hive table as it was. You can downgrade the table to Hive at any time, with all changes.',
  ];
}
