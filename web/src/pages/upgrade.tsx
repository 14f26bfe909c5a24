import { Stepper } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useParams } from 'react-router';

import { hiveReport, hiveTable } from '../api/hive-queries';
import { lastUpgrade } from '../api/queries';
import type { HiveReport } from '../api/types';
import { TableName } from '../components/job-parts';
import { When } from '../components/figures';
import { Note, ProblemNote, Words } from '../components/notes';
import { Page, Panel } from '../components/panel';
import { paths } from '../lib/paths';
import { useUrlState } from '../lib/url-state';
import { UpgradeProgress } from './upgrade-progress';
import { Checks, Consequences, Found, KeyChoice, propertiesOf, type Choices } from './upgrade-steps';
import styles from './upgrade.module.css';

/** From a Hive table to a Firn table in four steps; once started, the address leads to its progress. */
export function UpgradePage() {
  const { catalog = '', table = '' } = useParams();
  const [get] = useUrlState();
  const known = useQuery({ ...hiveTable(catalog, table), enabled: get('operation') === undefined });
  const operation = get('operation') ?? known.data?.operation_id ?? undefined;
  return (
    <Page
      title={
        <>
          Upgrade <TableName table={table} />
        </>
      }
      sub={operation === undefined ? 'Turns a Hive table into an Iceberg table in place. Nothing changes before the last step.' : undefined}
    >
      {operation === undefined && <LastTime catalog={catalog} table={table} />}
      {operation === undefined ? <Wizard catalog={catalog} table={table} /> : <UpgradeProgress id={operation} catalog={catalog} table={table} />}
    </Page>
  );
}

/** The last failed upgrade of the table, with its error. */
function LastTime({ catalog, table }: { catalog: string; table: string }) {
  const { data: last } = useQuery(lastUpgrade(catalog, table));
  if (last?.status !== 'failed') return null;
  return (
    <Note
      tone="warn"
      title={
        <>
          The last upgrade failed, <When at={last.ended_at} />: {last.error}
        </>
      }
    >
      {last.hint !== null && <Words>{`${last.hint}. `}</Words>}The failed upgrade changed nothing. The checks below read the table as it is now; what only a read of all files can show,
      the upgrade finds after its start. <Link className="inline" to={`${paths.upgrade(catalog, table)}?operation=${last.id}`}>View that upgrade</Link>
    </Note>
  );
}

const STEPS = ['Table', 'Checks', 'Key and options', 'What will happen'];

function Wizard({ catalog, table }: { catalog: string; table: string }) {
  const [get, set] = useUrlState();
  const key = get('key')?.split(',') ?? [];
  // The address follows what is typed, and not the reverse: it changes later than a text field may.
  const [log, setLog] = useState(() => (get('log') === undefined ? null : { connection: get('connection') ?? '', topic: get('topic') ?? '', format: get('format') ?? '' }));
  const choices: Choices = { key, sequence: get('sequence') ?? '', subdirectories: get('subdirectories') ?? '', log: key.length === 0 ? null : log };
  const plain = useQuery({ ...hiveReport(catalog, table, [], propertiesOf(choices.subdirectories)), placeholderData: keepPreviousData });
  const keyed = useQuery({ ...hiveReport(catalog, table, key, propertiesOf(choices.subdirectories)), enabled: key.length > 0 });
  const step = Math.min(Number(get('step') ?? 0), STEPS.length - 1);
  const go = (to: number) => set({ step: to === 0 ? undefined : String(to) });
  if (plain.data === undefined) return <Looking error={plain.error} table={table} />;
  const report: HiveReport = (key.length > 0 ? keyed.data : plain.data) ?? plain.data;
  const parts = { catalog, report, choices, go, checking: key.length > 0 && keyed.isFetching, problem: keyed.error };
  return (
    <Panel>
      <Stepper
        active={step}
        onStepClick={go}
        size="xs"
        iconSize={24}
        allowNextStepsSelect={report.eligible}
        classNames={{ steps: styles.steps ?? '', stepLabel: styles.stepLabel ?? '' }}
      >
        {STEPS.map((label) => (
          <Stepper.Step key={label} label={label} />
        ))}
      </Stepper>
      <div className={styles.body}>
        {step === 0 && <Found {...parts} />}
        {step === 1 && (
          <Checks
            {...parts}
            again={() => void plain.refetch()}
            looking={plain.isFetching}
            decide={(subdirectories) => set({ subdirectories })}
          />
        )}
        {step === 2 && (
          <KeyChoice
            {...parts}
            choose={(next) => {
              setLog(next.log);
              set({
                key: next.key.join(','),
                sequence: next.sequence,
                log: next.log === null ? undefined : 'yes',
                connection: next.log?.connection,
                topic: next.log?.topic,
                format: next.log?.format,
                ...(next.key.join() === key.join() ? {} : { count: undefined }),
              });
            }}
          />
        )}
        {step === 3 && <Consequences {...parts} started={(id) => set({ operation: id, step: undefined })} />}
      </div>
    </Panel>
  );
}

function Looking({ error, table }: { error: unknown; table: string }) {
  return (
    <Panel>
      {error ? (
        <ProblemNote error={error} what={`cannot check ${table}`} />
      ) : (
        <span className="dim">Reading the metastore and listing the table’s directories …</span>
      )}
    </Panel>
  );
}
